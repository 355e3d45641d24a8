"""Limits by Linux's control groups, versions 1 and 2: a tree of groups that belongs to one process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from kwiken.base.errors import KwikenError
from kwiken.base.machine.control_groups import group_folders
from kwiken.runtime.base.process_id import Identity
from kwiken.runtime.node_classes.adopted import AdoptedProcess
from kwiken.runtime.node_classes.launch import launched

PREFIX: Final = "kwiken-nodes"
PERIOD_US: Final = 10_000  # of a quota; shorter than most calls, so that they feel the limit evenly
MIN_QUOTA_US: Final = 2_000  # in a period; the kernel refuses less than 1,000
MAX_PERIOD_US: Final = 1_000_000  # the kernel's own bound
SHARES, MAX_SHARES = 1024, 262_144  # weight of a process, and the largest weight, version 1
WEIGHT, MAX_WEIGHT = 100, 10_000  # the same, version 2
END_S: Final = 5.0  # for killed processes to leave a group
LEAVE_S: Final = 0.5  # for processes that outlive a killed program to leave its groups
POLL_S: Final = 0.01
PROBE_S: Final = 10.0  # for a process to join a group
VERSION_1: Final = 1

_trees = itertools.count()


def quota_us(share: float) -> tuple[int, int]:
    """Quota and period, in microseconds, of some processors' worth of time.

    Args:
        share: processors' worth of time, above 0.
    """
    period = min(MAX_PERIOD_US, max(PERIOD_US, round(MIN_QUOTA_US / share)))
    return max(1_000, round(share * period)), period


def quota_files(version: int, share: float) -> dict[str, str]:
    """Content of a group's files that limits processor time, by name, in the order to write them.

    Args:
        version: version of control groups, 1 or 2.
        share: processors' worth of time, above 0.
    """
    quota, period = quota_us(share)
    if version == VERSION_1:
        return {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota)}
    return {"cpu.max": f"{quota} {period}"}


def weight_files(version: int, processes: int) -> dict[str, str]:
    """Content of a group's files that gives it the usual weight of some processes, by name.

    Args:
        version: version of control groups, 1 or 2.
        processes: number of processes, 1 or more.
    """
    if version == VERSION_1:
        return {"cpu.shares": str(min(MAX_SHARES, SHARES * processes))}
    return {"cpu.weight": str(min(MAX_WEIGHT, WEIGHT * processes))}


class ControlGroups:
    """Tree of control groups: one for each node, and in it one for each process with its children.

    Args:
        folder: folder of the tree, which exists.
        version: version of control groups, 1 or 2.
        exit_file: file by which a process leaves the tree for the group of this process; None for none.

    Attributes:
        exit_file: the same file, for those who start processes that are to outlive this one.
    """

    def __init__(self, folder: Path, version: int, exit_file: Path | None = None) -> None:
        self.exit_file = exit_file
        self._folder = folder
        self._version = version
        self._groups: dict[str, Path] = {}
        self._bounds: dict[str, float] = {}  # processors' worth of time of a group's parent
        self._shares: dict[str, float] = {}
        self._numbers = itertools.count()

    @classmethod
    def find(cls, version: int, root: Path) -> Self | None:
        """Make the tree where this process may limit others; None where it may not.

        The own group is tried first and then its parents, so that the limits of the own group hold too where
        that is possible. What killed programs left there is removed.

        Args:
            version: version of control groups, 1 or 2.
        """
        places = [place for place, found in group_folders("cpu", root) if found == version]
        for place in reversed(places):
            remove_stale(place)
            folder = place / _own_name()
            try:
                folder.mkdir()
            except OSError:
                continue
            if _works(folder, version):
                return cls(folder, version, places[-1] / "cgroup.procs")
            with contextlib.suppress(OSError):
                folder.rmdir()
        return None

    def add(self, key: str, parent: str | None, share: float | None) -> None:
        """Make a group.

        Args:
            key: name of the group in this tree.
            parent: name of the group that it stands in; None for none.
            share: processors' worth of time; None for no limit but the parent's.

        Raises:
            KwikenError: the group cannot be made.
        """
        folder = (self._groups[parent] if parent is not None else self._folder) / str(next(self._numbers))
        try:
            if self._version != VERSION_1 and parent is not None:
                _write(self._groups[parent], {"cgroup.subtree_control": "+cpu"})
            folder.mkdir()
            self._groups[key] = folder
            self._weigh()
            self._bounds[key] = self._shares.get(parent or "", math.inf)
            if share is not None:
                self.resize(key, share)
        except OSError as error:
            raise KwikenError(f"{folder}: the control group cannot be made: {error.strerror}") from error

    def _weigh(self) -> None:
        """Give each group the weight of all groups in it, or a whole node would weigh as one process."""
        weights = dict.fromkeys([self._folder, *self._groups.values()], 0)
        for folder in self._groups.values():
            if not any(other.parent == folder for other in weights):
                for above in (folder, *folder.parents):
                    if above in weights:
                        weights[above] += 1
        for folder, weight in weights.items():
            with contextlib.suppress(OSError):
                _write(folder, weight_files(self._version, max(1, weight)))

    def resize(self, key: str, share: float) -> None:
        """Change the limit of a group; no more than its parent's, which version 1 refuses.

        Raises:
            KwikenError: the kernel refuses the limit.
        """
        folder = self._groups[key]
        self._shares[key] = share = min(share, self._bounds[key])
        try:
            _write(folder, quota_files(self._version, share))
        except OSError as error:
            raise KwikenError(f"{folder}: the limit cannot be set: {error.strerror}") from error

    def joins(self, key: str) -> list[Path]:
        """Files by which a process joins a group."""
        return [self._groups[key] / "cgroup.procs"]

    def started(self, key: str, process: asyncio.subprocess.Process | AdoptedProcess) -> None:
        """Take note of a process that has joined a group; nothing is to be done."""

    async def remove(self, key: str) -> None:
        """Kill the processes of a group and remove the group.

        Args:
            key: name of the group; groups in the group go too.
        """
        folder = self._groups.pop(key)
        await asyncio.to_thread(_remove, folder, END_S)
        gone = [key, *(name for name, path in self._groups.items() if path.is_relative_to(folder))]
        for name in gone:
            self._groups.pop(name, None)
            self._bounds.pop(name, None)
            self._shares.pop(name, None)
        self._weigh()

    async def close(self) -> None:
        """Kill every process in the tree and remove the tree."""
        self._groups.clear()
        await asyncio.to_thread(_remove, self._folder, END_S)


def remove_stale(place: Path) -> None:
    """Remove the trees of programs that were killed, with the processes that are left in them.

    A program may have been killed a moment ago, and its processes that outlive it are told by a signal: they
    get time to leave.
    """
    with contextlib.suppress(OSError):
        for folder in sorted(place.glob(f"{PREFIX}.*")):
            name = folder.name.split(".")
            if len(name) == 5 and name[1] == _namespace() and name[2].isdecimal():  # noqa: PLR2004 - words
                owner = Identity.of(int(name[2]))
                if owner is None or _ticks(owner) != name[3]:
                    _wait_empty(folder, LEAVE_S)
                    _remove(folder, END_S)


def _wait_empty(folder: Path, seconds: float) -> None:
    """Wait until no process is in a tree, or the time is up."""
    for _ in range(max(1, int(seconds / POLL_S))):
        if not any(_pids(folder)):
            return
        time.sleep(POLL_S)


def _own_name() -> str:
    """Name of a new tree: it tells which process owns the tree."""
    owner = Identity.of(os.getpid())
    ticks = _ticks(owner) if owner is not None else "0"
    return f"{PREFIX}.{_namespace()}.{os.getpid()}.{ticks}.{next(_trees)}"


def _ticks(owner: Identity) -> str:
    """Start time of a process within this boot, which control groups do not outlive."""
    return owner.started.rpartition(":")[2]


def _namespace() -> str:
    """Number of the namespace that pids are of: in another one they mean other processes."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return "0"


def _works(folder: Path, version: int) -> bool:
    """Whether a group can be limited and joined; tried, since rights and mounts vary too much to be told."""
    share = 1.0
    if not all((folder / name).exists() for name in quota_files(version, share)):
        return False
    joins = [folder / "cgroup.procs"]
    try:
        _write(folder, quota_files(version, share))
        done = subprocess.run(  # noqa: S603 - our own launcher
            launched(["true"], joins=joins), capture_output=True, timeout=PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    if done.returncode != 0:
        return False
    if version == VERSION_1:
        _write(folder, {"cpu.cfs_quota_us": "-1"})
        return True
    try:
        _write(folder, {"cpu.max": "max", "cgroup.subtree_control": "+cpu"})
    except OSError:
        return False
    return True


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="ascii")


def _remove(folder: Path, seconds: float) -> None:
    """Kill what is in a tree and remove it; what a process in an endless system call keeps is left."""
    for _ in range(max(1, int(seconds / POLL_S))):
        alive = False
        for pid in _pids(folder):
            alive = True
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not alive and _rmdir(folder):
            return
        time.sleep(POLL_S)


def _folders(folder: Path) -> Iterator[Path]:
    """Groups of a tree, the innermost first."""
    for place, _, _ in os.walk(folder, topdown=False):
        yield Path(place)


def _pids(folder: Path) -> Iterator[int]:
    for place in _folders(folder):
        with contextlib.suppress(OSError):
            for word in (place / "cgroup.procs").read_text(encoding="ascii").split():
                if int(word) > 0:  # 0: a process of another namespace
                    yield int(word)


def _rmdir(folder: Path) -> bool:
    for place in _folders(folder):
        try:
            place.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True
