"""Memory that this process may use, read from Linux's control groups of versions 1 and 2."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kwiken.base.machine.control_groups import group_folders

UNKNOWN_MEMORY: Final = 1 << 30  # bytes assumed where the system does not report its memory
LIMIT_FILES: Final = {1: "memory.limit_in_bytes", 2: "memory.max"}  # by version


def memory_limit(root: Path = Path("/")) -> int:
    """Memory limit of this process, bytes: physical memory, or the limit of its control group if lower."""
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        physical = UNKNOWN_MEMORY
    return min([physical, *_group_limits(root)])


def _group_limits(root: Path) -> Iterator[int]:
    """Memory limits of this process's control group and of its parents, bytes, cgroup versions 1 and 2."""
    for folder, version in group_folders("memory", root):
        try:
            text = (folder / LIMIT_FILES[version]).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if text.isascii() and text.isdigit() and int(text) > 0:  # else it is "max"
            yield int(text)
