"""Memory of finished requests: no reference cycles are left, however requests end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from kwiken.model.plan.plan import CatchUpPolicy, PartialPolicy, Plan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue, Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError, OverloadError, RefusedError
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Call, Replica
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.peers.misbehaving import misbehaving, saying, silence
from tests.support.peers.protocols import HTTP, PROTOCOLS, Protocol
from tests.support.runtime.garbage import garbage_of
from tests.support.runtime.replicas import Behaviour, Script, endow, executor_of, plan_of, service_of

CHAIN = service_of(
    Stage(name="a", replicas=3), Stage(name="b", after=("a",), replicas=3, idempotent=True, timeout_ms=100)
)
SIDE = service_of(Stage(name="a"), Stage(name="b", optional=True), Stage(name="m", after=("a", "b")))
SPARE = service_of(
    Stage(name="a"), Stage(name="b", after=("a",), optional=True), Stage(name="m", after=("b",))
)
FAN = service_of(Stage(name="b", fanout=3, replicas=2, idempotent=True), Stage(name="m", after=("b",)))
SPARE_FAN = service_of(
    Stage(name="a"),
    Stage(name="b", after=("a",), fanout=3, optional=True, idempotent=True, replicas=2),
    Stage(name="m", after=("b",)),
)
COPIES = plan_of(CHAIN, {"b": Reissue(after_ms=5.0, fraction=0.5)}, budget=1.0)
LATE = plan_of(CHAIN, late={"b": CatchUpPolicy(after_ms=1.0, reissue=True)})
CUT = plan_of(FAN, partial={"b": PartialPolicy(cutoff_ms=None, wait_ms=5.0, progress=0.5, loss=0.1)})

Outcome = Callable[[Call], Awaitable[Any]]


def at_b(outcome: Outcome) -> Behaviour:
    """Behaviour of stage b; the other stages answer after a moment."""

    async def behave(_: Replica, call: Call) -> Any:
        if call.stage == "b":
            return await outcome(call)
        await asyncio.sleep(0.002)
        return "ok"

    return behave


def fails(error: Callable[[], BaseException], after_s: float = 0.0) -> Outcome:
    async def outcome(_: Call) -> Any:
        await asyncio.sleep(after_s)
        raise error()

    return outcome


def answers(after_s: float) -> Outcome:
    async def outcome(_: Call) -> Any:
        await asyncio.sleep(after_s)
        return "ok"

    return outcome


async def stubborn(_: Call) -> Any:
    try:
        await asyncio.sleep(1)
    except asyncio.CancelledError:
        raise handler() from None


def first(primary: Outcome, copy: Outcome) -> Outcome:
    """One behaviour for the first attempt, another one for the rest."""
    return lambda call: (copy if call.attempt else primary)(call)


def shard(one: Outcome, rest: Outcome) -> Outcome:
    """One behaviour for the second shard, another one for the rest."""
    return lambda call: (one if call.shard == 1 else rest)(call)


def handler() -> HandlerError:
    return HandlerError("b", "ValueError", "told to fail")


def lost() -> LostError:
    return LostError("told to fail")


def refused() -> RefusedError:
    return RefusedError("told to fail")


async def ended(request: Awaitable[Any]) -> None:
    """Wait for a request however it ends."""
    try:
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await request
    finally:
        del request  # a task holds its error, which holds this frame


@pytest.mark.parametrize("note", [False, True])
@pytest.mark.parametrize(
    ("service", "outcome", "plan", "deadline_ms"),
    [
        pytest.param(CHAIN, answers(0.0), None, None, id="answered"),
        pytest.param(CHAIN, fails(handler), None, None, id="handler"),
        pytest.param(CHAIN, fails(refused), None, None, id="all refused"),
        pytest.param(CHAIN, first(fails(refused), answers(0.0)), None, None, id="one refused"),
        pytest.param(CHAIN, fails(lost), None, None, id="all lost"),
        pytest.param(CHAIN, first(fails(lost), answers(0.0)), None, None, id="one lost"),
        pytest.param(CHAIN, answers(1.0), None, 20.0, id="deadline"),
        pytest.param(CHAIN, answers(1.0), None, None, id="stage's timeout"),
        pytest.param(CHAIN, fails(asyncio.CancelledError), None, None, id="cancelled within"),
        pytest.param(SPARE, fails(handler), None, None, id="optional"),
        pytest.param(SIDE, fails(handler), None, None, id="optional beside"),
        pytest.param(FAN, fails(handler), None, None, id="all shards"),
        pytest.param(FAN, fails(lost), None, None, id="all shards lost"),
        pytest.param(FAN, shard(fails(handler, 0.01), answers(0.0)), None, None, id="one shard"),
        pytest.param(FAN, shard(fails(handler), answers(1.0)), None, None, id="one shard of slow ones"),
        pytest.param(FAN, answers(1.0), None, 20.0, id="fan-out's deadline"),
        pytest.param(FAN, fails(asyncio.CancelledError), None, None, id="fan-out cancelled within"),
        pytest.param(SPARE_FAN, fails(handler), None, None, id="optional fan-out"),
        pytest.param(SPARE_FAN, shard(fails(handler), answers(0.0)), None, None, id="optional, one shard"),
        pytest.param(CHAIN, first(answers(1.0), answers(0.0)), COPIES, None, id="copy wins"),
        pytest.param(CHAIN, first(answers(0.03), answers(1.0)), COPIES, None, id="copy loses"),
        pytest.param(CHAIN, first(answers(0.03), fails(handler)), COPIES, None, id="copy fails"),
        pytest.param(CHAIN, first(answers(0.03), fails(lost)), COPIES, None, id="copy lost"),
        pytest.param(CHAIN, first(fails(lost, 0.02), answers(0.03)), COPIES, None, id="copy after a loss"),
        pytest.param(CHAIN, first(fails(handler, 0.03), fails(lost, 0.01)), COPIES, None, id="both fail"),
        pytest.param(CHAIN, answers(1.0), COPIES, 30.0, id="deadline with a copy"),
        pytest.param(CHAIN, first(stubborn, answers(0.0)), COPIES, None, id="the loser fails"),
        pytest.param(CHAIN, first(answers(0.03), stubborn), COPIES, None, id="the losing copy fails"),
        pytest.param(CHAIN, first(answers(1.0), answers(0.0)), LATE, None, id="late"),
        pytest.param(CHAIN, fails(lost), LATE, None, id="late and lost"),
        pytest.param(FAN, shard(answers(1.0), answers(0.0)), CUT, None, id="cut short"),
        pytest.param(FAN, shard(fails(handler), answers(0.0)), CUT, None, id="partial, one fails"),
        pytest.param(FAN, fails(handler), CUT, None, id="partial, all fail"),
    ],
)
async def test_requests_are_freed_however_they_end(
    service: Service, outcome: Outcome, plan: Plan | None, deadline_ms: float | None, note: bool
) -> None:
    executor = executor_of(service, Script(at_b(outcome)), clock=SystemClock())
    executor.apply(plan)

    async def run() -> None:
        if plan is not None:
            endow(executor)
        await ended(executor.run("x", deadline_ms=deadline_ms, note=note))

    assert await garbage_of(run) == {}


@pytest.mark.parametrize("service", [CHAIN, FAN], ids=["chain", "fan-out"])
@pytest.mark.parametrize("how", ["cancelled", "timed out", "in a task", "no replica"])
async def test_requests_without_an_answer_are_freed(service: Service, how: str) -> None:
    outcome = fails(handler) if how == "in a task" else answers(1.0)
    nobody: dict[str, list[Replica]] = {name: [] for name in service.stages}
    replicas = nobody if how == "no replica" else None
    executor = executor_of(service, Script(at_b(outcome)), clock=SystemClock(), replicas=replicas)

    async def run() -> None:
        if how == "timed out":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await executor.run("x")
            return
        tasks = [asyncio.create_task(executor.run("x"))]
        await asyncio.sleep(0.02)
        if how == "cancelled":
            tasks[0].cancel()
        await ended(tasks.pop())

    assert await garbage_of(run) == {}


async def test_a_request_turned_away_is_freed() -> None:
    executor = executor_of(CHAIN, Script(at_b(answers(0.0))), clock=SystemClock())
    executor.note_line(60.0)

    async def run() -> None:
        await ended(executor.run("x"))
        with pytest.raises(OverloadError):
            executor.turn_away()

    assert await garbage_of(run) == {}


async def act(how: str) -> str:
    """Handler that behaves as the request says."""
    match how:
        case "raise":
            raise ValueError("told to fail")
        case "exit":
            raise SystemExit(3)
        case "cancel":
            raise asyncio.CancelledError
        case "wait":
            await asyncio.sleep(5)
        case "nap":
            await asyncio.sleep(0.05)
        case "hold":
            time.sleep(0.01)  # noqa: ASYNC251 - others are to queue up
    return how


def failing_setup() -> None:
    raise ValueError("told to fail")


ACTING = Service.of("acting", [Stage(name="a", handler=act, idempotent=True, replicas=2)])


@pytest.mark.parametrize("how", ["answer", "raise", "exit", "cancel", "wait"])
async def test_requests_in_one_process_are_freed(how: str) -> None:
    executor = Executor(
        ACTING,
        LocalTransport(ACTING),
        replicas=local_replicas(ACTING),
        clock=SystemClock(),
        rng=random.Random(1),
    )
    assert await garbage_of(lambda: ended(executor.run(how, deadline_ms=100.0))) == {}


async def test_a_failed_setup_is_freed() -> None:
    transport = LocalTransport(
        Service.of("acting", [Stage(name="a", handler=act, setup=failing_setup, idempotent=True)])
    )
    assert await garbage_of(lambda: ended(transport.setup())) == {}


async def test_a_task_that_is_defective_is_freed() -> None:
    async def fail() -> None:
        raise DeadlineError("told to fail")

    async def run() -> None:
        tasks = [asyncio.create_task(fail())]
        await asyncio.sleep(0)
        await ended(cancel_and_wait((tasks.pop(),)))

    assert await garbage_of(run) == {}


@contextlib.asynccontextmanager
async def over_sockets(
    protocol: Protocol = HTTP, *, max_inflight: int = 64
) -> AsyncIterator[tuple[Executor, Gateway]]:
    """Two replicas, a transport, an executor and a gateway in this process."""
    servers = [protocol.server(ACTING, "a", max_inflight=max_inflight) for _ in range(2)]
    for server in servers:
        await server.start()
    replicas = {"a": [Replica(str(index), str(index), server.url) for index, server in enumerate(servers)]}
    async with protocol.transport(ACTING) as transport:
        executor = Executor(ACTING, transport, replicas=replicas, clock=SystemClock(), rng=random.Random(1))
        gateway = Gateway(ACTING, executor)
        await gateway.start()
        yield executor, gateway
        await gateway.stop(grace_s=0.0)
    for server in servers:
        await server.stop(grace_s=0.0, linger_s=0.0)


async def crowd(start: Callable[[int], Awaitable[Any]], count: int, *, cancel: bool = False) -> None:
    """A number of requests at once, and a moment for replicas to notice disconnected clients."""
    tasks = [asyncio.ensure_future(start(index)) for index in range(count)]
    if cancel:
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        del task
    while tasks:
        await ended(tasks.pop())
    await asyncio.sleep(0.05)


WAYS = [
    pytest.param("answer", 1, 64, id="answered"),
    pytest.param("raise", 1, 64, id="handler"),
    pytest.param("exit", 1, 64, id="handler's exit"),
    pytest.param("cancel", 1, 64, id="cancelled within"),
    pytest.param("wait", 1, 64, id="deadline or caller hung up"),
    pytest.param("nap", 6, 1, id="refused for want of room"),
    pytest.param("hold", 8, 2, id="displaced, or past the deadline"),
]


@PROTOCOLS
@pytest.mark.parametrize("cancel", [False, True], ids=["patient", "cancelled"])
@pytest.mark.parametrize(("how", "count", "room"), WAYS)
async def test_requests_over_sockets_are_freed(
    protocol: Protocol, how: str, count: int, room: int, cancel: bool
) -> None:
    async with over_sockets(protocol, max_inflight=room) as (executor, _):

        async def run() -> None:
            await crowd(
                lambda index: executor.run(how, deadline_ms=100.0, priority=index), count, cancel=cancel
            )

        assert await garbage_of(run) == {}


@pytest.mark.parametrize("cancel", [False, True], ids=["patient", "cancelled"])
@pytest.mark.parametrize(("how", "count", "room"), WAYS)
async def test_requests_through_the_gateway_are_freed(how: str, count: int, room: int, cancel: bool) -> None:
    body = msgspec.json.encode(how)
    async with over_sockets(max_inflight=room) as (_, gateway):
        port = int(gateway.url.rpartition(":")[2])

        async def ask(index: int) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(
                    b"POST /v1/request HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n"
                    b"kw-deadline-ms: 100\r\nkw-priority: %d\r\n\r\n%s" % (len(body), index, body)
                )
                await reader.read()
            finally:
                writer.transport.abort()

        assert await garbage_of(lambda: crowd(ask, count, cancel=cancel)) == {}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"hello\r\n\r\n", id="no HTTP"),
        pytest.param(b"", id="cut"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n", id="no length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", id="too large"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xc1", id="no MessagePack"),
        pytest.param(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n", id="no error"),
        pytest.param(b"HTTP/1.1 504 X\r\nContent-Length: 0\r\n\r\n", id="dropped"),
        pytest.param(b"HTTP/1.1 421 X\r\nContent-Length: 0\r\n\r\n", id="misdirected"),
        pytest.param(None, id="silent"),
    ],
)
async def test_calls_to_replicas_that_misbehave_are_freed(said: bytes | None) -> None:
    async with (
        misbehaving(silence if said is None else saying(said)) as replica,
        FrameTransport(ACTING) as transport,
    ):
        executor = Executor(
            ACTING, transport, replicas={"a": [replica]}, clock=SystemClock(), rng=random.Random(1)
        )
        assert await garbage_of(lambda: ended(executor.run("x", deadline_ms=50.0))) == {}
