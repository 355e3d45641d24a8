"""What programs start and may leave behind: processes and control groups."""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from pathlib import Path

from kwiken.runtime.base.process_id import Identity

NAP = (sys.executable, "-c", "import time; time.sleep(600)")  # a command of best-effort work
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


def naps_of_this_process() -> list[Identity | None]:
    """Children of this process that run the best-effort command."""
    return [Identity.of(int(each.name)) for each in Path("/proc").iterdir() if is_nap(each)]


def is_nap(process: Path) -> bool:
    """Whether a process is the best-effort command, as a child of this process."""
    with contextlib.suppress(OSError):
        parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == os.getpid() and b"time.sleep(600)" in (process / "cmdline").read_bytes()
    return False
