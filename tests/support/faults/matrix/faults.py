"""The faults of the matrix: what is done to running processes, what clients may lose, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.support.faults.matrix.clients import CALLERS, Clients, Ended
from tests.support.faults.matrix.detour import Detour
from tests.support.faults.matrix.levers import plan
from tests.support.faults.matrix.processes import (
    CALLS_AT_ONCE,
    CLOCK_JUMPS,
    NAMES_LATE,
    Place,
    Stack,
    tell,
)
from tests.support.faults.matrix.service import Ask, service
from tests.support.peers.protocols import WRONG_ANSWERS, call_of
from tests.support.runtime.waiting import until

LASTS_S: Final = 0.3
HOLDS_S: Final = 10.0  # for which a call may hold one of a replica's places
SLOW_S: Final = 0.15  # more than any plan waits before a copy, less than a timeout
CUT_EVERY_S: Final = 0.03
SWAP_EVERY_S: Final = 0.02
GONE: Final = ("503", "502", "UNAVAILABLE")
# Of each client: one in flight, and one sent before the client knows of the end.
LOST_BY_A_KILL: Final = 2
NEEDS_MIB: Final = 48  # more than a process has left of what it once got


@dataclass
class Cell:
    """One cell of the matrix while it runs.

    Attributes:
        victim: number of the replica of the look-up that the fault meets.
        lever: lever in force.
    """

    stack: Stack
    clients: Clients
    victim: int
    lever: str

    @property
    def replica(self) -> Place:
        """The replica that the fault meets."""
        return self.stack.looks[self.victim]

    @property
    def detour(self) -> Detour:
        """The relay before it."""
        return self.stack.detours[self.victim]


async def _kill(cell: Cell) -> None:
    await asyncio.sleep(LASTS_S / 3)
    cell.replica.kill()
    await asyncio.sleep(LASTS_S)
    await cell.replica.start()


async def _stop(cell: Cell) -> None:
    tell(cell.replica, signal.SIGSTOP)
    try:
        await asyncio.sleep(2 * LASTS_S)
    finally:
        tell(cell.replica, signal.SIGCONT)


async def _slow(cell: Cell) -> None:
    cell.detour.delay_s = SLOW_S
    await asyncio.sleep(2 * LASTS_S)


async def _refuse(cell: Cell) -> None:
    await cell.detour.close()
    await asyncio.sleep(LASTS_S)


async def _reset(cell: Cell) -> None:
    for _ in range(round(LASTS_S / CUT_EVERY_S)):
        await asyncio.sleep(CUT_EVERY_S)
        cell.detour.cut()


async def _wrong(cell: Cell) -> None:
    for how in WRONG_ANSWERS:
        async with cell.stack.protocol.answering(how) as bad:
            host, _, port = bad.address.rpartition("//")[2].rpartition(":")
            cell.detour.lead(host, int(port))
            await asyncio.sleep(LASTS_S / 3)
            await cell.detour.heal()


async def _full(cell: Cell) -> None:
    protocol, place = cell.stack.protocol, cell.replica
    async with protocol.transport(service) as transport:
        replica = protocol.replica_at(f"http://{place.host}:{place.port}")
        hold = call_of("look", Ask(number=-1, sleep_ms=HOLDS_S * 1e3))
        holders = [asyncio.create_task(transport.call(replica, hold)) for _ in range(CALLS_AT_ONCE + 8)]
        done, _ = await asyncio.wait(holders, return_when=asyncio.FIRST_COMPLETED)
        assert done, "the replica takes no end of calls"
        await asyncio.sleep(LASTS_S)
        await asyncio.sleep(LASTS_S)
        for task in holders:
            task.cancel()
        await asyncio.gather(*holders, return_exceptions=True)


async def _all_gone(cell: Cell) -> None:
    await asyncio.sleep(LASTS_S / 3)
    await asyncio.gather(*(each.close() for each in cell.stack.detours))
    await asyncio.sleep(LASTS_S)


async def _late_names(cell: Cell) -> None:
    stack, before = cell.stack, cell.stack.look_ups()
    stack.switch(NAMES_LATE, on=True)
    await until(lambda: stack.look_ups() != before)
    await asyncio.sleep(LASTS_S)


async def _far(cell: Cell) -> None:
    assert cell.stack.far is not None
    cell.detour.lead(cell.stack.far.host, cell.stack.far.port)
    await asyncio.sleep(4 * LASTS_S)


async def _clock(cell: Cell) -> None:
    cell.stack.switch(CLOCK_JUMPS, on=True)
    await asyncio.sleep(4 * LASTS_S)


@contextlib.contextmanager
def _limited(place: Place, kind: int, most: int) -> Iterator[None]:
    pid = place.pid
    usual = resource.prlimit(pid, kind)
    resource.prlimit(pid, kind, (most, usual[1]))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, kind, usual)


async def _disk_full(cell: Cell) -> None:
    with _limited(cell.stack.gateway, resource.RLIMIT_FSIZE, 0):
        await asyncio.sleep(2 * LASTS_S)


async def _memory(cell: Cell) -> None:
    with _limited(cell.replica, resource.RLIMIT_AS, cell.replica.memory()):
        cell.clients.mib = NEEDS_MIB
        await asyncio.sleep(LASTS_S)
        cell.clients.mib = 0
        await until(lambda: not cell.clients.large)
    await cell.replica.start()  # gRPC's core ends a process that gets no memory


async def _swapped(cell: Cell) -> None:
    plans = [plan(cell.lever), plan(cell.lever, after_ms=15.0), plan(cell.lever, after_ms=90.0), None]
    for turn in range(round(2 * LASTS_S / SWAP_EVERY_S)):
        await cell.stack.put_plan(cell.clients.session, plans[turn % len(plans)])
        await asyncio.sleep(SWAP_EVERY_S)


async def _gateway(cell: Cell) -> None:
    await asyncio.sleep(LASTS_S)
    with cell.clients.without_gateway():
        await cell.stack.restart_gateway()


def nothing(cell: Cell) -> str:
    """What is wrong if a request was not answered; empty if all were."""
    return _told(cell.clients.failed)


def _told(failed: list[Ended]) -> str:
    return "; ".join(f"{each.number}: {each.how}" for each in failed[:5])


def _while_gone(cell: Cell) -> str:
    return _told([each for each in cell.clients.failed if not each.how.startswith(GONE)])


def _in_flight(cell: Cell) -> str:
    failed = cell.clients.failed
    others = [each for each in failed if not cell.clients.ended_by_a_kill(each)]
    return _told(others or failed) if others or len(failed) > LOST_BY_A_KILL * CALLERS else ""


def _few_over_grpc(cell: Cell) -> str:
    failed = cell.clients.failed
    most = len(cell.clients.ended) // 20 if cell.stack.protocol.scheme == "grpc" else 0
    return _told(failed) if len(failed) > most else ""


@dataclass(frozen=True)
class Fault:
    """One row of the matrix.

    Attributes:
        name: name on the page and in the tests.
        done: what is done, as the page says.
        holds: what clients may lose, as the page says.
        inject: does it, and ends when it has passed; `heal` mends what is left.
        lost: what clients lost that they may not lose; empty for nothing.
    """

    name: str
    done: str
    holds: str
    inject: Callable[[Cell], Awaitable[None]]
    lost: Callable[[Cell], str] = nothing


NONE: Final = "no request"
FAULTS: Final = (
    Fault("kill", "a replica is killed by SIGKILL and started again", NONE, _kill),
    Fault("stop", "a replica is stopped by SIGSTOP and goes on later", NONE, _stop),
    Fault("slow", "all bytes from and to a replica come 150 ms later", NONE, _slow),
    Fault("refuse", "a replica's port refuses connections", NONE, _refuse),
    Fault("reset", "a replica's connections are reset every 30 ms, in the middle of calls", NONE, _reset),
    Fault(
        "wrong answer",
        "a replica's address gives answers of another type, without figures, of no message, of another service, full",
        NONE,
        _wrong,
    ),
    Fault("full queue", "a replica holds as many calls as it takes", NONE, _full),
    Fault(
        "all gone",
        "all replicas of a stage refuse connections",
        "requests that come meanwhile, each told at once that the stage is unavailable",
        _all_gone,
        _while_gone,
    ),
    Fault("late names", "look-ups of replicas' names do not end", NONE, _late_names),
    Fault(
        "lost packets",
        "a replica is in a network namespace that drops 5% of the packets each way and has 1 Mbit/s",
        NONE,
        _far,
    ),
    Fault(
        "clock jump",
        "the wall clock of all processes jumps by an hour, to and fro, every half second",
        "no request; over gRPC at most one in twenty, whose call a jump falls into",
        _clock,
        _few_over_grpc,
    ),
    Fault("disk full", "nothing that the gateway writes to a file is taken", NONE, _disk_full),
    Fault("out of memory", "a replica gets no more memory, and calls need 48 MiB", NONE, _memory),
    Fault("plan swapped", "the plan is replaced, changed and removed every 20 ms", NONE, _swapped),
    Fault(
        "gateway killed",
        "the gateway is killed by SIGKILL and started again",
        "requests in the killed gateway or on their way to it, at most two of each client",
        _gateway,
        _in_flight,
    ),
)


async def heal(cell: Cell) -> None:
    """Mend what a fault left."""
    stack = cell.stack
    for number in (NAMES_LATE, CLOCK_JUMPS):
        stack.switch(number, on=False)
    for detour in stack.detours:
        await detour.heal()
    for place in (*stack.looks, *stack.joins, stack.gateway):
        await place.start()


def table() -> str:
    """The faults as rows of the page's table."""
    rows = ["| fault | what is done | what clients lose |", "|---|---|---|"]
    rows += [f"| {each.name} | {each.done} | {each.holds} |" for each in FAULTS]
    return "\n".join(rows)
