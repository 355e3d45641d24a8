"""Pausing process: stops and continues replicas by a schedule, and leaves none stopped.

A separate process, so that the measurement cannot delay the pauses nor the pauses the measurement. It ends,
with every replica running again, when its standard input closes, and so also when its parent dies.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec

from kwiken.apps.demo.faults.pause_schedule import Burst, bursts, victims
from kwiken.base.errors import InputError

MAX_TARGETS = 1000


class PausedProcess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stage to disturb: pids of its replicas, and the share of the time for which one of them is paused."""

    stage: str
    pids: list[int]
    share: float


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Order to the process: the first line on standard input."""

    seed: int
    targets: list[PausedProcess]


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pause that took place, one line on standard output; times in seconds since 1970."""

    stage: str
    pid: int
    start_s: float
    end_s: float


class Process(Protocol):
    """Process that can be signalled."""

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process.

        Raises:
            ProcessLookupError: the process has ended.
        """


class PidFd:
    """Process by its pidfd, which a later process of the same pid cannot inherit; by pid without pidfds."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process; ProcessLookupError if it has ended."""
        if self._handle is not None:
            signal.pidfd_send_signal(self._handle, number)
        else:
            os.kill(self._pid, number)


def disturb(
    order: Order,
    processes: Mapping[int, Process],
    *,
    clock: Callable[[], float],
    wait: Callable[[float], bool],
    tell: Callable[[Pause], None],
) -> None:
    """Stop and continue replicas by the schedule until told to stop; at the end all replicas run.

    Args:
        order: stages, their replicas and shares of the time.
        processes: processes by pid; a missing pid has ended.
        clock: returns the time in seconds since 1970.
        wait: waits for a number of seconds; returns True when it is time to stop.
        tell: receives each pause that took place.
    """
    streams = {target.stage: _stream(target, order.seed) for target in order.targets}
    began = clock()
    queue = [(burst.start_s, stage, burst, pid) for stage, (burst, pid) in _first(streams)]
    heapq.heapify(queue)
    paused: dict[str, tuple[int, float]] = {}

    def resume(stage: str) -> None:
        pid, since = paused.pop(stage)
        _signal(processes.get(pid), signal.SIGCONT)
        tell(Pause(stage, pid, since, clock()))

    try:
        while queue:
            due, stage, burst, pid = queue[0]
            if wait(max(0.0, began + due - clock())):
                return
            heapq.heappop(queue)
            if stage not in paused and _signal(processes.get(pid), signal.SIGSTOP):
                paused[stage] = (pid, clock())
                heapq.heappush(queue, (burst.start_s + burst.length_s, stage, burst, pid))
                continue
            if stage in paused:
                resume(stage)
            burst, pid = next(streams[stage])
            heapq.heappush(queue, (burst.start_s, stage, burst, pid))
    finally:
        for stage in list(paused):
            resume(stage)


Stream = Iterator[tuple[Burst, int]]


def _stream(target: PausedProcess, seed: int) -> Stream:
    """Pauses of a stage, each with the pid that it hits."""
    hit = victims(target.stage, len(target.pids), seed)
    for burst in bursts(target.stage, seed, target.share):
        yield burst, target.pids[next(hit)]


def _first(streams: Mapping[str, Stream]) -> Iterator[tuple[str, tuple[Burst, int]]]:
    for stage, stream in streams.items():
        yield stage, next(stream)


def _signal(process: Process | None, number: signal.Signals) -> bool:
    """Send a signal; False if the process has ended."""
    if process is None:
        return False
    try:
        process.send(number)
    except ProcessLookupError:
        return False
    return True


def _stdin_closed(seconds: float) -> bool:
    """Wait for a number of seconds; True as soon as standard input is closed."""
    deadline = time.monotonic() + seconds
    while True:
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([0], [], [], left)
        if ready and not os.read(0, 4096):
            return True
        if not ready:
            return False


def _print(pause: Pause) -> None:
    """Print one line without a buffer; a closed pipe must not keep a replica paused."""
    with contextlib.suppress(OSError):
        os.write(1, msgspec.json.encode(pause) + b"\n")


def read_order(line: bytes) -> Order:
    """Parse the order in a line.

    Raises:
        InputError: when the line is not a valid order.
    """
    try:
        order = msgspec.json.decode(line, type=Order)
    except msgspec.MsgspecError as error:
        raise InputError(str(error), where="order") from error
    few = len(order.targets) <= MAX_TARGETS and sum(len(t.pids) for t in order.targets) <= MAX_TARGETS
    sound = all(0 < t.share < 1 and t.pids and min(t.pids) > 1 for t in order.targets)
    if not (few and sound):
        raise InputError("targets need pids above 1 and a share between 0 and 1", where="order")
    return order


def _stop(*_: object) -> None:
    raise SystemExit(0)


def _first_line() -> bytes:
    """Read a line from standard input without a buffer, because `select` watches for what follows."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def main() -> None:
    """Read the order, and pause replicas until standard input is closed."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _stop)
    order = read_order(_first_line())
    processes: dict[int, Process] = {}
    for pid in (pid for target in order.targets for pid in target.pids):
        with contextlib.suppress(ProcessLookupError):
            processes[pid] = PidFd(pid)
    disturb(order, processes, clock=time.time, wait=_stdin_closed, tell=_print)


if __name__ == "__main__":
    main()
    sys.exit(0)
