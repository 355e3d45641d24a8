"""Processor time of processes, read from /proc where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_USER, _SYSTEM = 11, 12  # places of utime and stime after the command's name in /proc/PID/stat


def processor_seconds(pids: Iterable[int]) -> dict[int, float]:
    """Processor time in seconds used so far by each running process; empty without /proc."""
    found = {}
    tick = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    for pid in pids:
        try:
            fields = (
                Path(f"/proc/{pid}/stat")
                .read_text(encoding="ascii", errors="replace")
                .rpartition(")")[2]
                .split()
            )
            found[pid] = (int(fields[_USER]) + int(fields[_SYSTEM])) / tick
        except (OSError, ValueError, IndexError):
            continue
    return found


def used_between(before: dict[int, float], after: dict[int, float]) -> float | None:
    """Processor time in seconds used between two readings by the processes in both; None if there is none."""
    common = before.keys() & after.keys()
    return sum(after[pid] - before[pid] for pid in common) if common else None
