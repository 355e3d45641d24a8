"""Counters of the processors, read from Linux's /proc and control groups of versions 1 and 2."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from pathlib import Path

from kwiken.base.machine.control_groups import group_folders
from kwiken.base.machine.processor_use import Reading

ROOT = Path("/")
# Places in a processor's line of /proc/stat, after its name; guest time is part of user and nice time.
USER, NICE, SYSTEM, IRQ, SOFTIRQ, STEAL = 0, 1, 2, 5, 6, 7
NANOSECONDS = 1e9  # a second in the unit of /proc/PID/schedstat
UTIME, STIME = 11, 12  # places in /proc/PID/stat after the command's name


def read_processors(pids: Iterable[int] = (), *, root: Path = ROOT) -> Reading | None:
    """Read the counters of the processors that this process may run on; None where there is no /proc.

    Args:
        pids: processes of this program; those that have ended are left out.
    """
    allowed = _allowed()
    found = _busy_and_stolen(root, allowed)
    if found is None:
        return None
    pids = list(pids)
    periods, throttled = _throttling(root)
    scheduled = {pid: times for pid in pids if (times := _scheduled(root, pid)) is not None}
    own = {pid: used for pid in pids if (used := _own_seconds(root, pid)) is not None}
    own |= {pid: ran for pid, (ran, _) in scheduled.items()}  # in nanoseconds, where ticks are 10 ms
    return Reading(
        at_s=time.monotonic(),
        processors=len(allowed),
        quota=_quota(root),
        busy_s=found[0],
        stolen_s=found[1],
        periods=periods,
        throttled=throttled,
        own_s=own,
        waited_s={pid: waited for pid, (_, waited) in scheduled.items()},
    )


def processors_given(*, root: Path = ROOT) -> float:
    """Processors' worth of time that this process may use: its affinity and its control groups' quota."""
    return min(float(len(_allowed())), _quota(root))


def _allowed() -> frozenset[int]:
    """Numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def _tick() -> int:
    return os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def _busy_and_stolen(root: Path, allowed: frozenset[int]) -> tuple[float, float] | None:
    """Busy and stolen time of some processors, in seconds; None where it cannot be read."""
    busy = stolen = 0
    try:
        lines = (root / "proc/stat").read_text(encoding="ascii").splitlines()
        for line in lines:
            name, *fields = line.split()
            if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in allowed:
                times = [int(field) for field in fields]
                busy += sum(times[place] for place in (USER, NICE, SYSTEM, IRQ, SOFTIRQ))
                stolen += times[STEAL]
    except (OSError, ValueError, IndexError):
        return None
    return busy / _tick(), stolen / _tick()


def _own_seconds(root: Path, pid: int) -> float | None:
    """Processor time in seconds that a process has used so far, in ticks; None if it has ended."""
    try:
        text = (root / f"proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        fields = text.rpartition(")")[2].split()
        return (int(fields[UTIME]) + int(fields[STIME])) / _tick()
    except (OSError, ValueError, IndexError):
        return None


def _scheduled(root: Path, pid: int) -> tuple[float, float] | None:
    """Running and waiting time of a process's threads so far, in seconds; None where it is not counted."""
    ran = waited = 0
    for path in (root / f"proc/{pid}/task").glob("*/schedstat"):
        words = _words(path)
        if len(words) < 2 or not (words[0].isdecimal() and words[1].isdecimal()):  # noqa: PLR2004 - of three
            continue  # the thread has ended meanwhile
        ran += int(words[0])
        waited += int(words[1])
    return (ran / NANOSECONDS, waited / NANOSECONDS) if ran else None


def _quota(root: Path) -> float:
    """Smallest quota of the control groups, in processors; infinite without one."""
    groups = group_folders("cpu", root)
    return min((_quota_of(folder, version) for folder, version in groups), default=math.inf)


def _quota_of(folder: Path, version: int) -> float:
    if version == 2:  # noqa: PLR2004 - of control groups
        quota, period = [*_words(folder / "cpu.max"), "", ""][:2]
    else:
        quota = "".join(_words(folder / "cpu.cfs_quota_us")[:1])
        period = "".join(_words(folder / "cpu.cfs_period_us")[:1])
    if not (quota.isdecimal() and period.isdecimal() and int(quota) and int(period)):
        return math.inf  # "max", "-1", or no such file
    return int(quota) / int(period)


def _throttling(root: Path) -> tuple[int, int]:
    """Periods of all quotas on this process, and the periods among them that were throttled."""
    periods = throttled = 0
    for folder, version in group_folders("cpu", root):
        if math.isfinite(_quota_of(folder, version)):
            words = _words(folder / "cpu.stat")
            found = dict(zip(words[::2], words[1::2], strict=False))
            periods += _number(found.get("nr_periods"))
            throttled += _number(found.get("nr_throttled"))
    return periods, throttled


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return []


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
