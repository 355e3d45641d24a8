"""Clients of the fault matrix: they ask over the protocol of the replicas, and know what each request must get."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from math import inf
from typing import Any, Final

import aiohttp
import grpc
import msgspec
from grpc import aio

from tests.support.faults.matrix.processes import Stack
from tests.support.faults.matrix.service import whole
from tests.support.peers.grpc_messages import Request, ask_of

NOT_SENT: Final = "not sent"  # nobody took the connection
HUNG_UP: Final = "hung up"
# What gRPC's core says of a connection that ended, by reading, by writing, or by the other side's word.
ENDED: Final = ("Stream removed", "reset", "closed", "Broken pipe", "GOAWAY")
NO_ANSWER: Final = "no answer"
WRONG: Final = "wrong answer"
OK: Final = "ok"
FULL: Final = ("503", "RESOURCE_EXHAUSTED")
RETRY_AFTER_S: Final = 1.0  # the least that a gateway asks for
CALLERS: Final = 4
AFTER: Final = 5  # requests of each caller after the fault
MAX_S: Final = 15.0  # for one request that was sent
AWAY_S: Final = 45.0  # for which nobody may take the connection
RETRY_S: Final = 0.02
AGAIN_S: Final = 10.0  # pauses until requests are served again
numbers = itertools.count()


class Ended(msgspec.Struct, frozen=True):
    """How a request ended.

    Attributes:
        how: `OK`, or what the client was told.
        partial: whether the answer says that it lacks something.
        lost: utility that it lacks, 0 to 1.
        at: moment at which it was sent, seconds of the loop's clock.
        took: time until its end, seconds.
    """

    number: int
    how: str
    partial: bool = False
    lost: float = 0.0
    at: float = 0.0
    took: float = 0.0


class Kill(msgspec.Struct):
    """A gateway that is killed and started again.

    Attributes:
        in_flight: numbers of the requests that had no answer yet.
        at: moment of the kill, seconds of the loop's clock.
        up: moment at which the next gateway listens.
    """

    in_flight: frozenset[int]
    at: float
    up: float = inf

    def ended(self, request: Ended) -> bool:
        """Whether a request was in the killed gateway or on its way to it.

        On a connection of which a client does not know yet that it is closed, a request is sent to nobody.
        """
        sent_to_it = request.number in self.in_flight or self.at <= request.at <= self.up
        return request.how == HUNG_UP and sent_to_it


class Clients:
    """Clients of one cell of the matrix.

    Attributes:
        session: connections for control routes too.
        ended: all requests that were sent.
        mib: memory that each request's look-ups need, MiB.
        lane_ms: time for which each look-up has one of its replica's lanes, milliseconds; 0 for none.
        patient: whether a request that was refused because the service is full is sent again after a pause, as
            `Retry-After` asks for.
        refused: number of such refusals, by the fault before them.
        fault: last fault that was injected.
        in_flight: numbers of the requests that have no answer yet.
        large: number of requests in flight whose look-ups need memory.
        kills: gateways that were killed.
    """

    def __init__(self, stack: Stack, session: aiohttp.ClientSession, channel: Any) -> None:
        self.stack, self.session = stack, session
        self._send = ask_of(channel)
        self._over_grpc = stack.protocol.scheme == "grpc"
        self.ended: list[Ended] = []
        self.mib = 0
        self.lane_ms = 0.0
        self.patient = False
        self.refused: Counter[str] = Counter()
        self.fault = ""
        self.large = 0
        self.in_flight: set[int] = set()
        self.kills: list[Kill] = []

    async def ask(self) -> Ended:
        """Send a request, again and again until somebody takes the connection."""
        number = next(numbers)
        body = {"number": number, "sleep_ms": 5.0, "mib": self.mib, "lane_ms": self.lane_ms}
        needs = self.mib > 0
        self.large += needs
        self.in_flight.add(number)
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(2 * MAX_S if self.patient else MAX_S) as limit:
                while True:
                    ended = await (self._grpc if self._over_grpc else self._http)(number, body)
                    if self.patient and ended.how.startswith(FULL):
                        self.refused[self.fault] += 1
                        await asyncio.sleep(RETRY_AFTER_S * random.uniform(0.5, 1.5))
                    elif ended.how == NOT_SENT:
                        if not self.patient and began + AWAY_S > (now := asyncio.get_running_loop().time()):
                            limit.reschedule(now + MAX_S)  # a process may take long to start
                        await asyncio.sleep(RETRY_S * random.uniform(1.0, 50.0 if self.patient else 1.0))
                    else:
                        break
        except TimeoutError:
            ended = Ended(number, NO_ANSWER)
        finally:
            self.large -= needs
            self.in_flight.discard(number)
        took = asyncio.get_running_loop().time() - began
        ended = msgspec.structs.replace(ended, at=began, took=took)
        self.ended.append(ended)
        return ended

    async def at_rate(self, rate_per_s: float, seconds: float, seed: int) -> None:
        """Send requests at random moments, whether or not earlier ones were answered; ends when all have ended."""
        loop, rng = asyncio.get_running_loop(), random.Random(seed)
        due = begin = loop.time()
        sent: set[asyncio.Task[Ended]] = set()
        while (due := due + rng.expovariate(rate_per_s)) < begin + seconds:
            await asyncio.sleep(max(0.0, due - loop.time()))
            task = asyncio.create_task(self.ask())
            sent.add(task)
            task.add_done_callback(sent.discard)
        await asyncio.gather(*sent)

    async def _http(self, number: int, body: dict[str, Any]) -> Ended:
        try:
            async with self.session.post(self.stack.url + "/v1/request", json=body) as answer:
                told = msgspec.json.decode(await answer.read())
                if answer.status != 200:
                    return Ended(number, f"{answer.status} {told}")
        except aiohttp.ClientConnectorError:
            return Ended(number, NOT_SENT)
        except (aiohttp.ClientError, ConnectionError):
            return Ended(number, HUNG_UP)
        return self._judged(number, told["answer"], told.get("partial", False), told.get("utility", 1.0))

    async def _grpc(self, number: int, body: dict[str, Any]) -> Ended:
        try:
            told = await self._send(Request(json=json.dumps(body)), timeout=MAX_S)
        except aio.AioRpcError as error:
            return Ended(number, racks_text(error.code(), error.details() or ""))
        return self._judged(number, json.loads(told.json), told.partial, told.utility)

    def _judged(self, number: int, answer: str, partial: bool, utility: float) -> Ended:
        right = whole(number)
        if partial:
            parts = answer.split()
            fits = len(parts) < len(right.split()) and set(parts) < set(right.split())
        else:
            fits = answer == right
        return Ended(number, OK if fits else f"{WRONG} {answer!r}", partial, 1.0 - utility)

    async def during(self, fault: Callable[[], Awaitable[None]]) -> None:
        """Keep asking until the fault has passed and some more requests are answered."""
        over = asyncio.Event()

        async def caller() -> None:
            more = AFTER
            while more > 0:
                if (await self.ask()).how == HUNG_UP:
                    await asyncio.sleep(RETRY_S)  # until the end of the connection is known
                more -= over.is_set()

        callers = [asyncio.create_task(caller()) for _ in range(CALLERS)]
        try:
            await fault()
        finally:
            over.set()
            await asyncio.gather(*callers)

    async def some(self, count: int) -> list[Ended]:
        """Send some requests, a few at once."""
        before = len(self.ended)
        for _ in range(0, count, CALLERS):
            await asyncio.gather(*(self.ask() for _ in range(CALLERS)))
        return self.ended[before:]

    async def serves_again(self) -> None:
        """Wait until a request is answered."""
        for _ in range(round(AGAIN_S / RETRY_S)):
            if (await self.ask()).how == OK:
                return
            await asyncio.sleep(RETRY_S)
        raise AssertionError(f"not served within {AGAIN_S:g} s: {self.ended[-1].how}")

    @contextlib.contextmanager
    def without_gateway(self) -> Iterator[None]:
        """The gateway is killed and started again."""
        loop = asyncio.get_running_loop()
        kill = Kill(frozenset(self.in_flight), loop.time())
        self.kills.append(kill)
        yield
        kill.up = loop.time()

    @property
    def failed(self) -> list[Ended]:
        """Requests that were not answered."""
        return [each for each in self.ended if each.how != OK]

    def ended_by_a_kill(self, request: Ended) -> bool:
        """Whether a request was in a killed gateway or on its way to it."""
        return any(kill.ended(request) for kill in self.kills)


def racks_text(code: grpc.StatusCode, details: str) -> str:
    """How a request over gRPC ended that has no answer, by its status."""
    if code is grpc.StatusCode.UNAVAILABLE and not details.startswith("stage "):  # by gRPC's core
        if details.startswith("failed to connect to all addresses"):
            return NOT_SENT
        if any(word in details for word in ENDED):
            return HUNG_UP
    return f"{code.name} {details}"


@contextlib.asynccontextmanager
async def clients(stack: Stack) -> AsyncIterator[Clients]:
    """Clients with connections of their own, which are closed at the end."""
    options = [
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.min_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 100),
        ("grpc.enable_retries", 0),
    ]
    async with (
        aiohttp.ClientSession() as session,
        aio.insecure_channel(f"127.0.0.1:{stack.grpc_port}", options=options) as channel,
    ):
        yield Clients(stack, session, channel)
