"""Budget of bytes that all callers' requests together may hold, and the memory that it is a share of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FREE: Final = 16 << 10  # bytes of each request that are not counted: who sends little is never crowded out
GATEWAY_SHARE: Final = 1 / 16
REPLICA_SHARE: Final = 1 / 32  # there are many of them on a machine
MIN_BODIES: Final = 64 << 20
MAX_BODIES: Final = 512 << 20
UNKNOWN_MEMORY: Final = 1 << 30


class ByteBudget:
    """Budget of bytes held at once; a plain count.

    Args:
        most: bytes.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    @property
    def left(self) -> int:
        """Bytes that may still be taken."""
        return self.most - self.taken

    def take(self, count: int) -> bool:
        """Take so many bytes if there is room for all of them."""
        if count > self.left:
            return False
        self.taken += count
        return True

    def give(self, count: int) -> None:
        """Give bytes back."""
        self.taken -= count


def share_of_memory(share: float) -> int:
    """Bytes that all bodies together may take where nobody says otherwise."""
    return max(MIN_BODIES, min(MAX_BODIES, int(share * memory_limit())))


def memory_limit(root: Path = Path("/")) -> int:
    """Bytes of memory that this process can have: the machine's, or less where its control group says so.

    Args:
        root: of the file system.
    """
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        physical = UNKNOWN_MEMORY
    return min([physical, *_group_limits(root)])


def _group_limits(root: Path) -> Iterator[int]:
    """Limits of this process' control group and of those that it is in, versions 1 and 2."""
    for path in _limit_files(root):
        try:
            text = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isascii() and text.isdigit() and int(text) > 0:  # else it is "max"
            yield int(text)


def _limit_files(root: Path) -> Iterator[Path]:
    groups = root / "sys/fs/cgroup"
    yield groups / "memory.max"
    yield groups / "memory/memory.limit_in_bytes"
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, kinds, group = [*line.split(":", 2), "", ""][:3]
        if kinds == "":
            base, name = groups, "memory.max"
        elif "memory" in kinds.split(","):
            base, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        here = base
        for part in Path(group).parts[1:]:
            here /= part
            yield here / name
