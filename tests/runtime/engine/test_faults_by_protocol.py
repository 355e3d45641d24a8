"""Faults of replicas at real sockets, over frames; nothing is left behind after any of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Reissue
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import DeadlineError, LostError, RefusedError, UnavailableError, UnfitError
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.transport.base import Replica
from tests.support.peers.protocols import (
    HTTP,
    PROTOCOLS,
    WRONG_ANSWERS,
    Protocol,
    Relay,
    call_of,
    nothing_leaked,
)
from tests.support.runtime.replicas import endow, plan_of
from tests.support.runtime.waiting import PATIENCE_S, found, until
from tests.support.services.http import Ask, plan_for, service

REFUSED, UNFIT, LOST = RefusedError, UnfitError, LostError
HELPS = {
    "of another type": UNFIT,
    "without figures": LOST,
    "of no message": LOST,
    "of another service": REFUSED,
    "full": REFUSED,
}

once = Service("once")  # its stage must not run twice


@once.stage(idempotent=False, timeout_ms=4000)
async def only(ask: Ask) -> str:
    await asyncio.sleep(ask.sleep_ms / 1e3)
    return ask.text


@contextlib.asynccontextmanager
async def executor_with(
    protocol: Protocol, bad: list[Replica], *, good: int = 1, target: Service = service, stage: str = "middle"
) -> AsyncIterator[Executor]:
    """An executor over real sockets, with good replicas of every stage and bad ones of one stage."""
    async with contextlib.AsyncExitStack() as stack:
        replicas: dict[str, list[Replica]] = {name: [] for name in target.stages}
        replicas[stage] += bad
        for name in target.stages:
            for number in range(good if name == stage else 1):
                _, replica = await stack.enter_async_context(protocol.serving(target, name))
                replicas[name].append(msgspec.structs.replace(replica, id=f"{name}-{number}"))
        transport = await stack.enter_async_context(FrameTransport(target, raw=True))
        yield Executor(
            target,
            transport,
            replicas=replicas,
            clock=SystemClock(),
            rng=random.Random(3),
            control_share=0.0,
        )


async def answers_of(executor: Executor, count: int = 24, **ask: float) -> None:
    """Send requests, some at once, and check every answer."""
    for turn in range(count // 4):
        texts = [f"n{4 * turn + number}" for number in range(4)]
        answers = await asyncio.gather(*(executor.run(Ask(text, **ask)) for text in texts))  # type: ignore[arg-type]
        assert [answer.value for answer in answers] == [
            {"said": f"{text.upper()}0 {text.upper()}1"} for text in texts
        ]


async def closed_port() -> int:
    """A port that nobody listens on."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


@PROTOCOLS
async def test_a_closed_port_loses_no_request(protocol: Protocol) -> None:
    async with nothing_leaked():
        bad = protocol.replica_at(f"http://127.0.0.1:{await closed_port()}")
        async with executor_with(protocol, [bad]) as executor:
            await answers_of(executor)


@PROTOCOLS
@pytest.mark.parametrize("how", WRONG_ANSWERS)
async def test_a_wrong_answer_loses_no_request_and_is_told_apart(protocol: Protocol, how: str) -> None:
    async with nothing_leaked(), protocol.answering(how) as bad:
        async with protocol.transport(service) as transport:
            with pytest.raises((RefusedError, LostError)) as caught:
                await transport.call(bad, call_of("middle", Ask("hi")))
            assert type(caught.value) is HELPS[how]
            assert getattr(caught.value, "full", False) is (how == "full")
            del caught  # its traceback holds the call
        async with executor_with(protocol, [bad]) as executor:
            await answers_of(executor)


@PROTOCOLS
async def test_a_connection_cut_in_the_middle_of_calls_loses_no_request(protocol: Protocol) -> None:
    async with nothing_leaked(), protocol.serving(service, "middle") as (_, target):
        relay = Relay(target)
        async with relay.running() as bad, executor_with(protocol, [bad]) as executor:
            requests = asyncio.create_task(answers_of(executor, 40, sleep_ms=20))
            for _ in range(5):
                await asyncio.sleep(0.03)
                relay.cut()
            await requests
        assert relay.carried


@PROTOCOLS
async def test_a_call_that_may_not_run_twice_is_not_repeated_after_a_cut(protocol: Protocol) -> None:
    async with nothing_leaked(), protocol.serving(once, "only") as (_, target):
        relay = Relay(target)
        async with (
            relay.running() as bad,
            executor_with(protocol, [bad], good=0, target=once, stage="only") as executor,
        ):
            cut = asyncio.create_task(executor.run(Ask("hi", sleep_ms=1000)))
            await until(lambda: relay.carried > 100)
            await asyncio.sleep(0.1)
            relay.cut()
            with pytest.raises(LostError, match="replica relayed"):
                await cut
            assert executor.status()["stages"]["only"]["retries"] == 0
            del cut  # its error's traceback holds the call


@PROTOCOLS
async def test_a_refused_call_that_may_not_run_twice_is_sent_elsewhere(protocol: Protocol) -> None:
    async with nothing_leaked():
        bad = protocol.replica_at(f"http://127.0.0.1:{await closed_port()}")
        async with executor_with(protocol, [bad], target=once, stage="only") as executor:
            for number in range(12):
                assert (await executor.run(Ask(f"n{number}"))).value == f"n{number}"


@PROTOCOLS
async def test_a_paused_replica_is_rescued_by_copies_and_serves_again(protocol: Protocol) -> None:
    async with nothing_leaked(), protocol.serving(service, "middle") as (_, target):
        relay = Relay(target)
        async with relay.running() as bad, executor_with(protocol, [bad]) as executor:
            executor.apply(plan_for())
            await answers_of(executor)
            relay.hold()
            await answers_of(executor)
            stage = executor.status()["stages"]["middle"]
            assert stage["reissues"] + stage["retries"] > 0
            relay.flow()
            before = relay.carried

            async def asked_again() -> None:
                while relay.carried < before + 2000:  # bytes of several calls
                    await answers_of(executor, 4)

            await asyncio.wait_for(asked_again(), 20.0)


@PROTOCOLS
async def test_full_replicas_refuse_and_all_full_is_said(protocol: Protocol, tmp_path: Path) -> None:
    async with (
        nothing_leaked(),
        protocol.serving(service, "middle", max_inflight=2) as (_, only_one),
        executor_with(protocol, [only_one], good=0) as executor,
    ):
        held = asyncio.create_task(executor.run(Ask("hi", sleep_ms=400, log=str(tmp_path))))
        await until(lambda: len(found(tmp_path, "started")) == 2)
        with pytest.raises(UnavailableError) as refused:
            await executor.run(Ask("no"))
        assert refused.value.full
        assert (await held).value == {"said": "HI0 HI1"}
        assert (await executor.run(Ask("one"))).value == {"said": "ONE0 ONE1"}
        del refused


@PROTOCOLS
async def test_all_gone_is_told_at_once_and_over_when_one_is_back(protocol: Protocol) -> None:
    async with nothing_leaked():
        port = await closed_port()
        bad = [protocol.replica_at(f"http://127.0.0.1:{port}", name) for name in ("a", "b")]
        async with executor_with(protocol, bad, good=0) as executor:
            for _ in range(10):
                with pytest.raises(UnavailableError, match="stage 'middle'"):
                    await executor.run(Ask("hi"))
            async with protocol.serving(service, "middle", port=port):
                answered = False
                async with asyncio.timeout(PATIENCE_S):
                    while not answered:
                        with contextlib.suppress(UnavailableError):
                            answered = (await executor.run(Ask("hi"))).value == {"said": "HI0 HI1"}


@PROTOCOLS
async def test_a_deadline_ends_the_request_and_the_work(protocol: Protocol, tmp_path: Path) -> None:
    async with nothing_leaked(), executor_with(protocol, []) as executor:
        with pytest.raises(DeadlineError):
            await executor.run(Ask("hi", sleep_ms=10_000, log=str(tmp_path)), deadline_ms=200.0)
        await until(lambda: len(found(tmp_path, "cancelled")) == len(found(tmp_path, "started")) >= 2)
        assert not found(tmp_path, "ended")
        await answers_of(executor, 4)


@PROTOCOLS
async def test_cancelling_a_request_cancels_the_work(protocol: Protocol, tmp_path: Path) -> None:
    async with nothing_leaked(), executor_with(protocol, []) as executor:
        task = asyncio.create_task(executor.run(Ask("hi", sleep_ms=10_000, log=str(tmp_path))))
        await until(lambda: len(found(tmp_path, "started")) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: len(found(tmp_path, "cancelled")) == 2)
        await answers_of(executor, 4)


@PROTOCOLS
async def test_plans_and_replicas_are_replaced_under_traffic(protocol: Protocol) -> None:
    async with nothing_leaked(), executor_with(protocol, [], good=2) as executor:
        requests = asyncio.create_task(answers_of(executor, 80, sleep_ms=5))
        middles = executor.replica_states()["middle"]
        replicas = [target.replica for target in middles]
        turn = 0
        while not requests.done():
            turn += 1
            executor.apply(plan_for(after_ms=5.0 + turn % 7) if turn % 3 else None)
            executor.set_replicas("middle", replicas[turn % 2 :])
            await asyncio.sleep(0.005)
        await requests
        assert turn > 10


many = Service("many")


@many.stage(idempotent=True, timeout_ms=6000)
async def often(ask: Ask) -> str:
    await asyncio.sleep(ask.sleep_ms / 1e3)
    return ask.text


async def test_a_frozen_replica_with_a_hundred_calls_loses_none_that_another_can_serve() -> None:
    """All its calls are on one connection, which stays open and says nothing more."""
    async with nothing_leaked(), contextlib.AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(HTTP.serving(many, "often", max_inflight=512)) for _ in range(2)
        ]
        relay = Relay(servers[0][1])
        frozen = await stack.enter_async_context(relay.running())
        transport = await stack.enter_async_context(FrameTransport(many, raw=True))
        executor = Executor(
            many,
            transport,
            replicas={"often": [frozen, msgspec.structs.replace(servers[1][1], id="good")]},
            clock=SystemClock(),
            rng=random.Random(3),
            control_share=0.0,
        )
        executor.apply(plan_of(many, {"often": Reissue(after_ms=1500.0, fraction=0.5)}))
        endow(executor)
        for _ in range(20):
            await executor.run(Ask("warm"))
        requests = [
            asyncio.create_task(executor.run(Ask(f"n{n}", sleep_ms=1000), deadline_ms=30_000))
            for n in range(220)
        ]
        await until(lambda: servers[0][0].calls.inflight >= 100)
        relay.hold()
        answers = await asyncio.gather(*requests, return_exceptions=True)
        relay.flow()
    lost = [answer for answer in answers if isinstance(answer, BaseException)]
    assert not lost, lost[:3]
    assert {answer.value for answer in answers if not isinstance(answer, BaseException)} == {
        f"n{n}" for n in range(220)
    }
