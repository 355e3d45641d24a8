"""Limits without rights: processes above their share of processor time are paused by SIGSTOP.

The time of each process is read from its clock, which Linux lets every process read. A process that sleeps is
not paused. The kernel's control groups are more exact: here a process can overdraw its share by one interval
of checks, which it pays back at once, and the work of children that live shorter than a scan is not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kwiken.runtime.base.process_id import family
from kwiken.runtime.node_classes.adopted import AdoptedProcess

LimitedProcess = asyncio.subprocess.Process | AdoptedProcess

TICK_S: Final = 0.005  # interval of checks
BURST_S: Final = 0.010  # time over which an unused share is kept, like the period of a quota
SCAN_S: Final = 0.1  # interval of scans for children
PROCESS_CLOCK: Final = 2  # kind of clock in a clock's number: processor time


@dataclass(slots=True)
class Allowance:
    """Processor time that may be used now: earned by the clock up to a burst, spent by use; may be negative.

    Attributes:
        share: processors' worth of time that is earned; None for no limit.
        left_s: time that may be used, seconds.
    """

    share: float | None
    left_s: float = 0.0

    def pass_time(self, elapsed_s: float, used_s: float) -> None:
        """Earn for some time and spend what was used in the time.

        Args:
            elapsed_s: seconds that have passed.
            used_s: seconds of processor time that were used.
        """
        if self.share is not None:
            self.left_s = min(self.share * BURST_S, self.left_s + self.share * elapsed_s) - used_s

    @property
    def exhausted(self) -> bool:
        """Whether no time is left."""
        return self.share is not None and self.left_s <= 0.0


@dataclass(slots=True)
class _Member:
    """One process that was started, with its children."""

    process: LimitedProcess
    used_s: dict[int, float] = field(default_factory=dict)  # by pid
    stopped: bool = False

    @property
    def over(self) -> bool:
        return self.process.returncode is not None

    def signal(self, number: int) -> None:
        """Signal the process group; the process leads the group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)


@dataclass(slots=True)
class _Group:
    allowance: Allowance
    parent: str | None
    members: list[_Member] = field(default_factory=list)


class DutyCycles:
    """Groups of processes, each limited by pausing; a task in the running event loop keeps the limits."""

    exit_file: Path | None = None  # there are no groups to leave

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self._keeper: asyncio.Task[None] | None = None

    def add(self, key: str, parent: str | None, share: float | None) -> None:
        """Make a group.

        Args:
            parent: name of the group whose limit holds too; None for none.
            share: processors' worth of time; None for no limit but the parent's.
        """
        self._groups[key] = _Group(Allowance(share), parent)

    def resize(self, key: str, share: float) -> None:
        """Change the limit of a group."""
        self._groups[key].allowance.share = share

    def joins(self, key: str) -> list[Path]:
        """Files by which a process joins a group: none."""
        del key
        return []

    def started(self, key: str, process: LimitedProcess) -> None:
        """Limit a process from now on.

        Args:
            process: process that leads a process group of its own.
        """
        self._groups[key].members.append(_Member(process, dict.fromkeys([process.pid], 0.0)))
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())

    async def remove(self, key: str) -> None:
        """Kill the processes of a group, and of the groups in the group, and forget them."""
        for name in [name for name, group in self._groups.items() if key in (name, group.parent)]:
            for member in self._groups.pop(name).members:
                member.signal(signal.SIGKILL)
                await member.process.wait()

    async def close(self) -> None:
        """Kill every process and end the task."""
        for key in [name for name, group in self._groups.items() if group.parent is None]:
            if key in self._groups:
                await self.remove(key)
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
            self._keeper = None

    async def _keep(self) -> None:
        before, scanned = time.monotonic(), 0.0
        while True:
            await asyncio.sleep(TICK_S)
            now = time.monotonic()
            if scan := now - scanned >= SCAN_S:
                scanned = now
            self._check(now - before, scan=scan)
            before = now

    def _check(self, elapsed_s: float, *, scan: bool) -> None:
        """Charge every group with what its processes used, and pause or continue them."""
        used = dict.fromkeys(self._groups, 0.0)
        for name, group in self._groups.items():
            for member in group.members:
                if not member.over:
                    spent = _spent(member, scan=scan)
                    used[name] += spent
                    if group.parent is not None:
                        used[group.parent] += spent
        for name, group in self._groups.items():
            group.allowance.pass_time(elapsed_s, used[name])
        for group in self._groups.values():
            stop = group.allowance.exhausted or (
                group.parent is not None and self._groups[group.parent].allowance.exhausted
            )
            for member in group.members:
                if member.stopped != stop and not member.over:
                    member.signal(signal.SIGSTOP if stop else signal.SIGCONT)
                    member.stopped = stop


def _spent(member: _Member, *, scan: bool) -> float:
    """Processor time that a process and its children have used since the last call, seconds."""
    pids = family(member.process.pid) if scan else list(member.used_s)
    spent = 0.0
    for pid in pids:
        try:
            used = time.clock_gettime((~pid << 3) | PROCESS_CLOCK)
        except OSError:  # the process has ended
            member.used_s.pop(pid, None)
            continue
        spent += used - member.used_s.get(pid, 0.0)
        member.used_s[pid] = used
    return spent
