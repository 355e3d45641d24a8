"""What programs may leave behind: processes, found by a mark in their environment, and control groups."""

from __future__ import annotations

import uuid
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


def new_mark(name: str) -> tuple[str, str]:
    """Name and value of an environment variable that all processes of one run inherit."""
    return name, uuid.uuid4().hex


def processes_with(mark: tuple[str, str]) -> list[str]:
    """Commands of all processes with a mark, zombies left out."""
    return list(commands_with(mark).values())


def commands_with(mark: tuple[str, str]) -> dict[int, str]:
    """Commands of all processes with a mark, by pid."""
    sought, found = "=".join(mark).encode(), {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if sought in (entry / "environ").read_bytes().split(b"\0"):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(entry.name)] = command
            except OSError:
                continue  # it has ended, or is another user's
    return found


def groups_of(pid: int) -> list[str]:
    """Control groups that a process made."""
    pattern = f"kwiken-nodes.*.{pid}.*"
    return [str(path) for path in [*GROUPS.glob(f"*/{pattern}"), *GROUPS.glob(pattern)]]
