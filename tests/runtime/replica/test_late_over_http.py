"""Late requests over real sockets: urgent calls start first, displace others, and get metered threads."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import CatchUpPolicy
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import RefusedError
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.replica.server import ReplicaServer, read_call_settings
from kwiken.runtime.replica.stage_runner import MeteredThreads
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica
from tests.support.runtime.replicas import endow, plan_of
from tests.support.runtime.waiting import until
from tests.support.services.late import Burn, Job, burning, hash_blocks, service


def call_of(stage: str, *args: Any, priority: int = 0, threads: int = 1) -> Call:
    deadline = time.monotonic() + 20
    return Call(stage, args, 0, 0, deadline, priority, 0, "", threads)


@contextlib.asynccontextmanager
async def serving(
    target: Service, stage: str, count: int = 1, **settings: Any
) -> AsyncIterator[tuple[list[ReplicaServer], list[Replica]]]:
    servers = [ReplicaServer(target, stage, **settings) for _ in range(count)]
    for server in servers:
        await server.start()
    try:
        yield servers, [Replica(f"{stage}-{n}", f"n{n}", s.url) for n, s in enumerate(servers)]
    finally:
        for server in servers:
            await server.stop(grace_s=0.0)


async def test_an_urgent_call_goes_before_those_that_wait() -> None:
    began: list[str] = []
    gate = asyncio.Event()
    target = Service("order")

    @target.stage()
    async def note(name: str) -> str:
        began.append(name)
        if name == "first":
            await gate.wait()
            time.sleep(0.3)  # noqa: ASYNC251 - it holds the loop while the others come
        return name

    async with serving(target, "note") as (_, (replica,)), FrameTransport(target) as transport:
        first = asyncio.create_task(transport.call(replica, call_of("note", "first")))
        await until(lambda: began)
        # All are sent before the loop is blocked, so they wait in the sockets until it runs again.
        others = [
            asyncio.create_task(transport.call(replica, call_of("note", name, priority=priority)))
            for name, priority in (("a", 0), ("low", -1), ("b", 0), ("urgent", 1), ("c", 0))
        ]
        for _ in range(3):
            await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(first, *others)
    assert began[0] == "first"
    assert began.index("urgent") == 1
    assert began[-1] == "low"


async def test_of_a_full_queue_the_least_urgent_gives_way_and_goes_elsewhere() -> None:
    async with (
        serving(burning, "burn", max_inflight=3) as (_, (replica,)),
        FrameTransport(burning) as transport,
    ):

        def send(name: str, priority: int) -> asyncio.Task[Any]:
            call = call_of("burn", Burn(name, burn_ms=20), priority=priority)
            return asyncio.create_task(transport.call(replica, call))

        tasks = [send(f"n{n}", 0) for n in range(3)]
        tasks.append(send("urgent", 1))
        tasks.append(send("late to come", 0))
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    refused = [str(end) for end in ends if isinstance(end, RefusedError)]
    assert len(refused) == 2
    assert "a more urgent call took its place" in refused[0] + refused[1]
    assert [end.value for end in ends if not isinstance(end, BaseException)].count("urgent") == 1


async def test_late_requests_get_through_full_queues() -> None:
    async with (
        serving(burning, "burn", 2, max_inflight=2) as (_, replicas),
        FrameTransport(burning) as transport,
    ):
        executor = Executor(
            burning,
            transport,
            replicas={"burn": replicas},
            clock=SystemClock(),
            rng=random.Random(1),
            control_share=0.0,
        )
        plain = [asyncio.create_task(executor.run(Burn(f"n{n}", burn_ms=5))) for n in range(4)]
        await asyncio.sleep(0)
        executor.apply(plan_of(burning, late={"burn": CatchUpPolicy(after_ms=0.0, priority=True)}))
        urgent = [asyncio.create_task(executor.run(Burn(f"u{n}", burn_ms=5))) for n in range(2)]
        ends = await asyncio.gather(*urgent, *plain, return_exceptions=True)
        status = executor.status()
    assert not [end for end in ends[:2] if isinstance(end, BaseException)], "the urgent ones got through"
    served = sum(not isinstance(end, BaseException) for end in ends)
    assert served >= 4, "two places at each of two replicas"
    assert status["stages"]["burn"]["late"]["calls"] == 2


async def test_threads_are_passed_and_their_work_is_metered() -> None:
    asyncio.get_running_loop().set_default_executor(MeteredThreads(max_workers=4))
    async with serving(service, "digest") as (_, (replica,)), FrameTransport(service) as transport:
        one, three = [
            await transport.call(replica, call_of("digest", Job(blocks=7), threads=threads))
            for threads in (1, 3)
        ]
    assert (one.value.threads, three.value.threads) == (1, 3)
    assert one.value.digests == three.value.digests == hash_blocks(range(7))
    assert one.busy_ms is not None
    assert three.busy_ms is not None
    assert three.busy_ms > 0.2 * one.busy_ms, "the threads' work counts, not the wait for it alone"


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"kw-threads": "4"}, "kw-threads"),
        ({"kw-threads": "0"}, "kw-threads"),
        ({"kw-threads": "many"}, "kw-threads"),
        ({"kw-priority": "10"}, "kw-priority"),
    ],
)
def test_a_wrong_header_is_named(headers: dict[str, str], named: str) -> None:
    with pytest.raises(InputError, match=named):
        read_call_settings(headers).check(service["digest"])


async def test_a_wrong_header_is_a_bad_request() -> None:
    async with serving(service, "digest") as ((server,), _):
        body = msgspec.msgpack.encode((Job(),))
        headers = {"content-type": wire.MSGPACK, "kw-threads": "9"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{server.url}/call", data=body, headers=headers) as reply,
        ):
            assert reply.status == 400


async def test_a_late_request_is_helped_from_end_to_end() -> None:
    """Real sockets: the call in flight is copied, later ones get threads, and the accounts show it."""
    asyncio.get_running_loop().set_default_executor(MeteredThreads(max_workers=4))
    async with contextlib.AsyncExitStack() as stack:
        replicas = {}
        for name in service.stages:
            _, replicas[name] = await stack.enter_async_context(serving(service, name, 2))
        transport = await stack.enter_async_context(FrameTransport(service, raw=True))
        executor = Executor(
            service,
            transport,
            replicas=replicas,
            clock=SystemClock(),
            rng=random.Random(1),
            control_share=0.0,
        )
        late = {
            "hold": CatchUpPolicy(after_ms=30, reissue=True),
            "digest": CatchUpPolicy(after_ms=30, threads=3, priority=True),
        }
        quick = await executor.run(
            Job(), note=True
        )  # without the plan: any request may be late on a busy machine
        executor.apply(plan_of(service, late=late, catch_up=1.0))
        endow(executor)
        executor.ledger.catch_up.earn(10**13, time.monotonic())
        slow = await executor.run(Job(hold_ms=120), note=True)
        spent = executor.status()["catch_up"]["spent"]
    assert quick.value["threads"] == 1
    assert slow.value["threads"] == 3
    assert slow.record is not None
    kinds = {(s.name, a.kind.value, a.threads, a.catch_up) for s in slow.record.stages for a in s.attempts}
    assert ("hold", "reissue", 1, True) in kinds
    assert ("digest", "primary", 3, True) in kinds
    assert 0.25 <= spent <= 0.25 + 2 * 0.25, "a copy, and at most twice the digest again"
    (look,) = [stage for stage in slow.record.stages if stage.name == "look"]
    assert {attempt.shard: attempt.worth for attempt in look.attempts} == {0: 0, 1: 0, 2: 0, 3: 1}


async def test_answers_that_are_judged_are_read() -> None:
    target = Service("judging")

    @target.stage(fanout=2, worth=lambda answer: list(answer.values))
    async def part(number: int, *, shard: int) -> int:
        return number + shard

    @target.stage(after=[part])
    async def whole(parts: Partial[int]) -> int:
        return sum(parts.present)

    async with (
        serving(target, "part") as (_, (parts,)),
        serving(target, "whole") as (_, (wholes,)),
        FrameTransport(target, raw=True) as transport,
    ):
        executor = Executor(
            target,
            transport,
            replicas={"part": [parts], "whole": [wholes]},
            clock=SystemClock(),
            rng=random.Random(1),
        )
        answer = await executor.run(3, note=True)
    assert answer.value == 7
    assert answer.record is not None
    assert {a.shard: a.worth for a in answer.record.stages[0].attempts} == {
        0: pytest.approx(3 / 7),
        1: pytest.approx(4 / 7),
    }
