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
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from cli.demo._law import Burst, bursts
from kwiken import InputError

MOST_TARGETS = 1000


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replica to be paused: of which stage, its process, its share of the time."""

    stage: str
    pid: int
    share: float


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do: the first line on standard input."""

    seed: int
    targets: list[Target]


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pause that took place: a line on standard output; seconds since 1970."""

    stage: str
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
    processes: dict[str, Process],
    *,
    clock: Callable[[], float],
    wait: Callable[[float], bool],
    tell: Callable[[Pause], None],
) -> None:
    """Pause and continue by the law until told to stop; on every way out all replicas run.

    Args:
        order: shares by stage.
        processes: by stage.
        clock: seconds since 1970.
        wait: waits for so many seconds; True when it is time to stop.
        tell: takes each pause that took place.
    """
    streams = {t.stage: bursts(t.stage, order.seed, t.share) for t in order.targets if t.stage in processes}
    began = clock()
    queue = [(burst.start_s, stage, burst) for stage, burst in _first(streams)]
    heapq.heapify(queue)
    paused: dict[str, float] = {}
    try:
        while queue:
            due, stage, burst = queue[0]
            if wait(max(0.0, began + due - clock())):
                return
            heapq.heappop(queue)
            if stage in paused:
                _resume(stage, processes, paused, clock=clock, tell=tell)
                burst = next(streams[stage])
                heapq.heappush(queue, (burst.start_s, stage, burst))
            elif _signal(processes[stage], signal.SIGSTOP):
                paused[stage] = clock()
                heapq.heappush(queue, (burst.start_s + burst.length_s, stage, burst))
    finally:
        for stage in list(paused):
            _resume(stage, processes, paused, clock=clock, tell=tell)


def _first(streams: dict[str, Iterator[Burst]]) -> Iterator[tuple[str, Burst]]:
    for stage, stream in streams.items():
        yield stage, next(stream)


def _resume(
    stage: str,
    processes: dict[str, Process],
    paused: dict[str, float],
    *,
    clock: Callable[[], float],
    tell: Callable[[Pause], None],
) -> None:
    _signal(processes[stage], signal.SIGCONT)
    tell(Pause(stage, paused.pop(stage), clock()))


def _signal(process: Process, number: signal.Signals) -> bool:
    """Whether the process was there to take it; one that has gone is disturbed no more."""
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
    if len(order.targets) > MOST_TARGETS or not all(0 < t.share < 1 and t.pid > 1 for t in order.targets):
        raise InputError("targets need a pid above 1 and a share between 0 and 1", where="order")
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
    processes: dict[str, Process] = {}
    for target in order.targets:
        with contextlib.suppress(ProcessLookupError):
            processes[target.stage] = PidFd(target.pid)
    disturb(order, processes, clock=time.time, wait=_stdin_closed, tell=_print)


if __name__ == "__main__":
    main()
    sys.exit(0)
