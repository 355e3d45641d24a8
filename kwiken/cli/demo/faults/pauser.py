"""A process of its own that pauses replicas and never leaves one paused.

It holds nothing but the law, so the measuring process cannot delay it and it cannot delay the measurement. It
ends, with every replica running again, when its standard input closes: so also when whoever started it dies.
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

from kwiken.cli.demo.faults.pause_schedule import Burst, bursts, victims
from kwiken.errors import InputError

MOST_TARGETS = 1000


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stage to disturb: its replicas' processes, and the share of the time that one of them is paused."""

    stage: str
    pids: list[int]
    share: float


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do: the first line on standard input."""

    seed: int
    targets: list[Target]


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pause that took place: a line on standard output; seconds since 1970."""

    stage: str
    pid: int
    start_s: float
    end_s: float


class Process(Protocol):
    """A process that takes signals."""

    def send(self, number: signal.Signals) -> None:
        """Send it a signal.

        Raises:
            ProcessLookupError: it has gone.
        """


class PidFd:
    """A process by a handle that a later process of the same number cannot inherit; by number elsewhere."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; ProcessLookupError when it has gone."""
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
    """Pause and continue by the law until told to stop; on every way out all replicas run.

    Args:
        order: stages, their replicas and shares.
        processes: by pid; one that is missing has gone.
        clock: seconds since 1970.
        wait: waits for so many seconds; True when it is time to stop.
        tell: takes each pause that took place.
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


def _stream(target: Target, seed: int) -> Stream:
    """A stage's pauses, and the process that each hits."""
    hit = victims(target.stage, len(target.pids), seed)
    for burst in bursts(target.stage, seed, target.share):
        yield burst, target.pids[next(hit)]


def _first(streams: Mapping[str, Stream]) -> Iterator[tuple[str, tuple[Burst, int]]]:
    for stage, stream in streams.items():
        yield stage, next(stream)


def _signal(process: Process | None, number: signal.Signals) -> bool:
    """Whether the process was there to take it; one that has gone is disturbed no more."""
    if process is None:
        return False
    try:
        process.send(number)
    except ProcessLookupError:
        return False
    return True


def _stdin_closed(seconds: float) -> bool:
    """Wait; True as soon as standard input has ended."""
    deadline = time.monotonic() + seconds
    while True:
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([0], [], [], left)
        if ready and not os.read(0, 4096):
            return True
        if not ready:
            return False


def _print(pause: Pause) -> None:
    """One line at once; a reader that has gone must not keep a replica paused."""
    with contextlib.suppress(OSError):
        os.write(1, msgspec.json.encode(pause) + b"\n")


def read_order(line: bytes) -> Order:
    """The order in a line.

    Raises:
        InputError: where it is none.
    """
    try:
        order = msgspec.json.decode(line, type=Order)
    except msgspec.MsgspecError as error:
        raise InputError(str(error), where="order") from error
    few = len(order.targets) <= MOST_TARGETS and sum(len(t.pids) for t in order.targets) <= MOST_TARGETS
    sound = all(0 < t.share < 1 and t.pids and min(t.pids) > 1 for t in order.targets)
    if not (few and sound):
        raise InputError("targets need pids above 1 and a share between 0 and 1", where="order")
    return order


def _stop(*_: object) -> None:
    raise SystemExit(0)


def _first_line() -> bytes:
    """A line from standard input, read without a buffer: what follows is watched with `select`."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return line


def main() -> None:
    """Read the order, disturb until standard input ends."""
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
