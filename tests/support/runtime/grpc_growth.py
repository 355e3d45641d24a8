"""Program: bytes of the C heap that each ended gRPC call leaves in a process, `python -m ... HOW ROUNDS`.

The heap has one arena, so that `mallinfo2` counts all of it; a warm-up comes first.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from grpc import aio

from kwiken.hedge.grpc_interceptor import HedgedUnaryCalls
from kwiken.hedge.hedger import Hedger
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, Costs, Plan, StagePlan
from kwiken.model.service.stage import Reissue
from kwiken.runtime.base.errors import DeadlineError
from kwiken.runtime.process.malloc import MallocUsage
from kwiken.runtime.wire.grpc.transport import GrpcTransport
from tests.support.peers.foreign_grpc import Ask as Question, Stock, grpc_server
from tests.support.peers.protocols import GRPC, call_of
from tests.support.peers.raw_http2 import Http2Client
from tests.support.services.http import Ask, service

AT_ONCE: Final = 50  # calls of one round
ROUND_S: Final = 0.03  # after which the calls of a round are cancelled; they would last a minute
REST_S, RESTS = 0.75, 3  # time for the last ends to arrive, and how often it is given

METHOD: Final = "shop.Inventory/Get"
PLAN: Final = Plan(
    version=1,
    service="shop",
    created="",
    profile="",
    budgets=Budgets(reissue=1.0),
    cost=Costs(model="calls", stages={METHOD: 1.0}),
    stages={METHOD: StagePlan(reissue=Reissue(after_ms=5.0))},
    ledger=LedgerTerms(floor_per_s=1000.0),
)

Round = Callable[[], Awaitable[None]]
Way = Callable[[], contextlib.AbstractAsyncContextManager[Round]]


def in_use() -> int:
    """Bytes of the C heap in use."""
    gc.collect()
    libc = ctypes.CDLL("libc.so.6")
    libc.mallinfo2.restype = MallocUsage
    found: int = libc.mallinfo2().uordblks
    return found


async def least_in_use() -> int:
    """Bytes in use once the last ends have arrived, also on a busy machine."""
    found = []
    for _ in range(RESTS):
        await asyncio.sleep(REST_S)
        found.append(in_use())
    return min(found)


async def _cancelled(calls: list[Awaitable[Any]]) -> None:
    """Cancel calls that have begun and do not end."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    await asyncio.sleep(ROUND_S)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert any(task.cancelled() for task in tasks)


@contextlib.asynccontextmanager
async def losers_of_a_gateway() -> AsyncIterator[Round]:
    """Calls of the runtime's transport to a replica, as a race cancels them."""
    async with GRPC.serving(service, "middle") as (_, replica), GrpcTransport(service) as transport:

        async def losers() -> None:
            slow = Ask("hi", sleep_ms=60_000.0)
            await _cancelled(
                [transport.call(replica, call_of("middle", slow, deadline_s=50.0)) for _ in range(AT_ONCE)]
            )

        yield losers


@contextlib.asynccontextmanager
async def answered_calls() -> AsyncIterator[Round]:
    """Calls of the runtime's transport that a replica answers."""
    async with GRPC.serving(service, "middle") as (_, replica), GrpcTransport(service) as transport:

        async def answered() -> None:
            calls = [call_of("middle", Ask("hi"), deadline_s=50.0) for _ in range(AT_ONCE)]
            await asyncio.gather(*(transport.call(replica, call) for call in calls))

        yield answered


@contextlib.asynccontextmanager
async def losers_of_an_interceptor() -> AsyncIterator[Round]:
    """Primaries through `kwiken.hedge`'s interceptor, each of which loses to its copy."""
    seen: set[str] = set()
    numbers = itertools.count()

    async def slow_once(question: Any, context: Any) -> Any:
        del context
        if question.sku not in seen:
            seen.add(question.sku)
            await asyncio.sleep(60.0)
        return Stock(sku=question.sku)

    hedger = Hedger(PLAN)
    async with grpc_server(slow_once) as replica:
        channel = aio.insecure_channel(
            replica.address.partition("://")[2], interceptors=[HedgedUnaryCalls(hedger)]
        )
        get = channel.unary_unary(
            f"/{METHOD}",
            request_serializer=Question.SerializeToString,
            response_deserializer=Stock.FromString,
        )

        async def race() -> None:
            calls = []
            for _ in range(AT_ONCE):
                calls.append(get(Question(sku=str(next(numbers)))))
                await asyncio.sleep(2.0 / PLAN.ledger.floor_per_s)  # the floor pays for every copy
            await asyncio.gather(*calls)
            seen.clear()

        async with channel:
            yield race
    assert hedger.counts[METHOD].won


@contextlib.asynccontextmanager
async def deadlines() -> AsyncIterator[Round]:
    """Calls of the runtime's transport whose deadline passes."""
    async with GRPC.serving(service, "middle") as (_, replica), GrpcTransport(service) as transport:

        async def late() -> None:
            slow = Ask("hi", sleep_ms=60_000.0)
            calls = [
                transport.call(replica, call_of("middle", slow, deadline_s=ROUND_S)) for _ in range(AT_ONCE)
            ]
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(error, DeadlineError)

        yield late


def _hanging_up(method: str, data: bytes, *, ends: bool = False, answered: bool = False) -> Way:
    @contextlib.asynccontextmanager
    async def way() -> AsyncIterator[Round]:
        async with GRPC.serving(service, "middle") as (server, _):
            port = int(server.url.rpartition(":")[2])

            async def hang_up() -> None:
                client = Http2Client(port)
                for stream in client.open(method, count=AT_ONCE):
                    client.write(stream, data, ends=ends)
                await asyncio.sleep(ROUND_S)
                client.read()
                # What is on its way to a client that hangs up is lost in grpcio.
                while answered and len(client.begun) < AT_ONCE:
                    await asyncio.sleep(0.01)
                    client.read()
                client.close()

            yield hang_up

    return way


CALL: Final = "/kwiken.v1.Stage/Call"
WATCH: Final = "/grpc.health.v1.Health/Watch"
# By what ends the calls, mostly at one of both sides.
WAYS: Final[dict[str, Way]] = {
    "answered calls": answered_calls,
    "losers of a gateway": losers_of_a_gateway,
    "losers of an interceptor": losers_of_an_interceptor,
    "deadlines": deadlines,
    "clients that hang up without a message": _hanging_up(CALL, b""),
    "clients that hang up within a message": _hanging_up(CALL, b"\0\0\x40\0\0" + bytes(1000)),
    "clients that hang up after a strange message": _hanging_up(
        CALL, b"\0\0\0\0\x02\x50\x01", ends=True, answered=True
    ),
    "watchers that hang up": _hanging_up(WATCH, b"\0\0\0\0\0", ends=True, answered=True),
}


async def growth_per_call(way: str, rounds: int) -> float:
    """Bytes that each call of so many rounds leaves."""
    async with WAYS[way]() as play:
        for _ in range(rounds // 3):
            await play()
        before = await least_in_use()
        for _ in range(rounds):
            await play()
        return (await least_in_use() - before) / (rounds * AT_ONCE)


if __name__ == "__main__":
    sys.stdout.write(f"{asyncio.run(growth_per_call(sys.argv[1], int(sys.argv[2]))):.1f}\n")
