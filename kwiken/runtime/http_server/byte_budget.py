"""Budget of the bytes that all requests of a server hold, as a share of the memory limit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

UNCOUNTED_BYTES: Final = (
    16 << 10
)  # bytes of each request that are not counted, so that small requests always fit
GATEWAY_SHARE: Final = 1 / 16  # of the memory limit
REPLICA_SHARE: Final = 1 / 32  # of the memory limit; a machine runs many replicas
MIN_BODIES: Final = 64 << 20  # bytes
MAX_BODIES: Final = 512 << 20  # bytes
UNKNOWN_MEMORY: Final = 1 << 30  # bytes assumed where the system does not report its memory


class ByteBudget:
    """Counter of bytes held at once, with a limit.

    Args:
        most: largest number of bytes, 0 or more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0

    @property
    def left(self) -> int:
        """Number of bytes that may still be taken."""
        return self.most - self.taken

    def take(self, count: int) -> bool:
        """Take a number of bytes if all of them fit; returns whether they did."""
        if count > self.left:
            return False
        self.taken += count
        return True

    def give(self, count: int) -> None:
        """Give back a number of bytes."""
        self.taken -= count


def share_of_memory(share: float) -> int:
    """Default byte budget: a share of the memory limit, within fixed bounds."""
    return max(MIN_BODIES, min(MAX_BODIES, int(share * memory_limit())))


def memory_limit(root: Path = Path("/")) -> int:
    """Memory limit of this process, bytes: physical memory, or the limit of its control group if lower.

    Args:
        root: root of the file system.
    """
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        physical = UNKNOWN_MEMORY
    return min([physical, *_group_limits(root)])


def _group_limits(root: Path) -> Iterator[int]:
    """Memory limits of this process's control group and of its parents, bytes, cgroup versions 1 and 2."""
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
