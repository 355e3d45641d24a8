"""Processes under limits: started, resized and ended, by the best method that this machine allows."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from kwiken.base.errors import InputError
from kwiken.runtime.base.process_id import family, processor_time_s
from kwiken.runtime.node_classes.adopted import AdoptedProcess
from kwiken.runtime.node_classes.control_groups import ControlGroups
from kwiken.runtime.node_classes.duty_cycle import DutyCycles, LimitedProcess
from kwiken.runtime.node_classes.launch import launched
from kwiken.runtime.node_classes.limit import Limit

ROOT: Final = Path("/")


class LimitMethod(enum.Enum):
    """Way to limit processes; the value describes it in messages."""

    CONTROL_GROUPS_1 = "control groups, version 1"
    CONTROL_GROUPS_2 = "control groups, version 2"
    SIGNALS = "pauses by SIGSTOP, for want of the right to make control groups"


class _Limiter(Protocol):
    """What limits groups of processes: control groups, or pauses."""

    def add(self, key: str, parent: str | None, share: float | None) -> None: ...

    def resize(self, key: str, share: float) -> None: ...

    def joins(self, key: str) -> list[Path]: ...

    exit_file: Path | None

    def started(self, key: str, process: LimitedProcess) -> None: ...

    async def remove(self, key: str) -> None: ...

    async def close(self) -> None: ...


class NodeLimits:
    """Nodes that this machine emulates, and processes on them; an asynchronous context manager.

    At the end every process is killed and every control group removed. If this process is killed, the kernel
    ends its children, and the next `NodeLimits` removes the control groups, with what is left in them.

    Args:
        method: method to use; None for the best one.
        root: root of the file system with /proc and /sys.

    Attributes:
        method: method in use, once entered.

    Raises:
        InputError: on entering, the method, or any, does not work here.
    """

    def __init__(self, method: LimitMethod | None = None, *, root: Path = ROOT) -> None:
        self._wanted = method
        self._root = root
        self._limiter: _Limiter | None = None
        self._nodes: set[str] = set()
        self._processes: dict[str, tuple[str | None, LimitedProcess]] = {}
        self.method = method or LimitMethod.SIGNALS

    async def __aenter__(self) -> Self:
        """Choose the method, and remove what killed programs left."""
        choice = asyncio.create_task(asyncio.to_thread(_chosen, self._wanted, self._root))
        try:
            self.method, self._limiter = await asyncio.shield(choice)
        except asyncio.CancelledError:  # the thread goes on, and what it makes has no other owner
            with contextlib.suppress(InputError):
                await (await choice)[1].close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill every process and remove every limit."""
        limiter, self._limiter = self._opened, None
        for _, process in self._processes.values():
            _kill(process)
        await limiter.close()
        for _, process in self._processes.values():
            await process.wait()
        self._processes.clear()
        self._nodes.clear()

    @property
    def _opened(self) -> _Limiter:
        assert self._limiter is not None, "use the limits as an asynchronous context manager"
        return self._limiter

    def add_node(self, node: str, limit: Limit) -> None:
        """Add a node, whose limit holds for all of its processes together.

        Args:
            limit: limit of the node; its `processors` are not used.

        Raises:
            InputError: there is a node of that name.
            KwikenError: the limit cannot be set.
        """
        if node in self._nodes:
            raise InputError(f"node {node!r} exists already")
        self._opened.add(_node_key(node), None, limit.share)
        self._nodes.add(node)

    async def start(
        self,
        command: Sequence[str],
        *,
        name: str,
        limit: Limit | None,
        node: str | None = None,
        **options: Any,
    ) -> asyncio.subprocess.Process:
        """Start a process under a limit, as the leader of a session and process group of its own.

        Args:
            name: name of the process, which no other one has that was not ended.
            limit: limit of the process with its children; None for its node's alone.
            options: further options of `asyncio.create_subprocess_exec`.

        Returns:
            The process. Its exit code is 125 if it could not be limited, 126 or 127 if the command could
            not be run.

        Raises:
            InputError: the name is taken, or the node does not exist.
            KwikenError: the limit cannot be set.
            OSError: the process cannot be started.
        """
        limiter = self._opened
        if name in self._processes:
            raise InputError(f"process {name!r} exists already")
        if node is not None and node not in self._nodes:
            raise InputError(f"no node {node!r}")
        key = _process_key(name)
        limiter.add(
            key, _node_key(node) if node is not None else None, limit.share if limit is not None else None
        )
        words = launched(
            command, joins=limiter.joins(key), processors=limit.processors if limit is not None else None
        )
        try:
            process = await asyncio.create_subprocess_exec(*words, start_new_session=True, **options)
        except BaseException:
            await limiter.remove(key)
            raise
        self._processes[name] = node, process
        limiter.started(key, process)
        return process

    def adopt(self, process: AdoptedProcess, *, name: str, limit: Limit, node: str) -> None:
        """Put a process that another program started under a limit, with its children.

        Args:
            process: process that leads a process group of its own.
            name: name of the process, which no other one has that was not ended.
            limit: limit of the process with its children.

        Raises:
            InputError: the name is taken, or the node does not exist.
            KwikenError: the limit cannot be set.
        """
        limiter = self._opened
        if name in self._processes:
            raise InputError(f"process {name!r} exists already")
        if node not in self._nodes:
            raise InputError(f"no node {node!r}")
        key = _process_key(name)
        limiter.add(key, _node_key(node), limit.share)
        for file in limiter.joins(key):
            for pid in family(process.pid):
                with contextlib.suppress(OSError):  # it has ended
                    file.write_text(str(pid), encoding="ascii")
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGCONT)  # what limited it before may have paused it
        self._processes[name] = node, process
        limiter.started(key, process)

    @property
    def exit_file(self) -> Path | None:
        """File by which a process leaves its limits for the group of this process; None for no groups."""
        return self._opened.exit_file

    def used_s(self, name: str) -> float | None:
        """Processor time that a process and its children have used so far, seconds; None if it is unknown.

        Time of children that have ended is counted once their parent has waited for them.
        """
        found = self._processes.get(name)
        return None if found is None else processor_time_s(found[1].pid)

    def resize(self, name: str, limit: Limit) -> None:
        """Change the limit of a process that runs.

        Args:
            limit: new limit; its `processors` are not used.

        Raises:
            InputError: no such process.
            KwikenError: the limit cannot be set.
        """
        if name not in self._processes:
            raise InputError(f"no process {name!r}")
        self._opened.resize(_process_key(name), limit.share)

    async def end(self, name: str) -> None:
        """Kill what is left of a process and its children, and remove its limit; nothing if it is unknown."""
        if (found := self._processes.pop(name, None)) is not None:
            _kill(found[1])
            await self._opened.remove(_process_key(name))
            await found[1].wait()

    async def remove_node(self, node: str) -> None:
        """Kill every process of a node at once, and remove the node, as if the machine was lost.

        Raises:
            InputError: no such node.
        """
        if node not in self._nodes:
            raise InputError(f"no node {node!r}")
        self._nodes.remove(node)
        names = [name for name, (where, _) in self._processes.items() if where == node]
        processes = [self._processes.pop(name)[1] for name in names]
        for process in processes:
            _kill(process)
        await self._opened.remove(_node_key(node))
        for process in processes:
            await process.wait()


def _chosen(wanted: LimitMethod | None, root: Path) -> tuple[LimitMethod, _Limiter]:
    """Find the first method that works."""
    if sys.platform != "linux":
        raise InputError("processes can be limited on Linux alone")
    for method, version in ((LimitMethod.CONTROL_GROUPS_2, 2), (LimitMethod.CONTROL_GROUPS_1, 1)):
        if wanted in (method, None) and (groups := ControlGroups.find(version, root)) is not None:
            return method, groups
    if wanted in (LimitMethod.SIGNALS, None):
        return LimitMethod.SIGNALS, DutyCycles()
    assert wanted is not None
    raise InputError(f"cannot limit processes here by {wanted.value}")


def _node_key(node: str) -> str:
    return f"node {node}"


def _process_key(name: str) -> str:
    return f"process {name}"


def _kill(process: LimitedProcess) -> None:
    """Kill a process and its process group."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
