"""Lines of requests in a running gateway: nothing is lost, over HTTP and gRPC, and who waits too long is told."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import aiohttp
import msgspec
import pytest
from grpc import StatusCode, aio

from kwiken.model.service.request_kinds import RequestKinds
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.base.errors import OverloadError
from kwiken.runtime.decisions.lines.request_lines import WAIT_SHARE, RequestLines
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.engine.line_gate import LineGate
from kwiken.runtime.gateway.grpc_server import GrpcGatewayServer
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.wire.grpc.messages import payload_message
from kwiken.runtime.wire.grpc.settings import ASK_METHOD
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from kwiken.testing.virtual_loop import simulate


class Asked(msgspec.Struct):
    kind: str = ""
    takes_s: float = 0.0


async def work(asked: Asked) -> str:
    await asyncio.sleep(asked.takes_s)
    return asked.kind


def service() -> Service:
    return Service.of("lined", [Stage(name="work", handler=work)])


async def executor_of(made: Service, *, limit: float | None = None) -> Executor:
    transport = LocalTransport(made)
    await transport.setup()
    executor = Executor(
        made,
        transport,
        replicas=local_replicas(made),
        clock=SystemClock(),
        rng=random.Random(1),
        lines=True,
    )
    if limit is not None:
        lines_of(executor).learner.limit = limit
    return executor


def lines_of(executor: Executor) -> RequestLines:
    gate = executor.gate
    assert gate is not None
    return gate.lines


async def gather(*tasks: Any) -> list[Any]:
    return list(await asyncio.gather(*tasks, return_exceptions=True))


async def test_requests_over_the_limit_wait_and_all_are_answered() -> None:
    executor = await executor_of(service(), limit=2)
    answers = await gather(*(executor.run(Asked(f"{n}", 0.002), kind="ab"[n % 2]) for n in range(20)))
    assert [answer.value for answer in answers] == [f"{n}" for n in range(20)]
    found = executor.status()["lines"]
    assert (found["running"], found["waiting"]) == (0, 0)
    assert {kind: line["started"] for kind, line in found["kinds"].items()} == {"a": 10, "b": 10}
    assert sum(line["waited"] for line in found["kinds"].values()) == 18
    assert executor.status()["inside"] == 0


async def test_a_request_that_waits_too_long_is_turned_away() -> None:
    executor = await executor_of(service(), limit=1)
    first = asyncio.create_task(executor.run(Asked("", 0.3)))
    await asyncio.sleep(0)
    with pytest.raises(OverloadError, match="requests of kind 'a' wait too long") as caught:
        await executor.run(Asked(), kind="a", deadline_ms=50.0)
    assert caught.value.retry_after_s >= 1.0
    await first
    status = executor.status()
    assert (status["shed"], status["inside"], status["requests"]) == (1, 0, 1)
    assert status["lines"]["kinds"]["a"]["turned_away"] == 1


async def test_a_caller_that_gives_up_leaves_its_line() -> None:
    executor = await executor_of(service(), limit=1)
    first = asyncio.create_task(executor.run(Asked("", 0.05)))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(executor.run(Asked(), kind="a"))
    await asyncio.sleep(0.01)
    waiting.cancel()
    assert isinstance((await gather(waiting))[0], asyncio.CancelledError)
    await first
    status = executor.status()
    assert (status["inside"], status["shed"]) == (0, 0)
    assert status["lines"]["kinds"]["a"]["left"] == 1
    assert (await executor.run(Asked("next"))).value == "next"


async def test_a_start_and_a_cancellation_at_one_moment_lose_no_place() -> None:
    gate = LineGate(asyncio.get_running_loop().time)
    gate.lines.learner.limit = 1
    now_s = asyncio.get_running_loop().time()
    first = await gate.enter("a", arrived_s=now_s, allowed_s=10.0, priority=0)
    second = asyncio.create_task(gate.enter("a", arrived_s=now_s, allowed_s=10.0, priority=0))
    await asyncio.sleep(0)
    gate.leave(first, served=True)  # starts the second
    second.cancel()
    await gather(second)
    assert (gate.lines.running, gate.lines.waiting) == (0, 0)


def test_the_end_of_a_wait_and_a_cancellation_at_one_moment_are_one() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        gate = LineGate(loop.time)
        gate.lines.learner.limit = 1
        first = await gate.enter("a", arrived_s=loop.time(), allowed_s=100.0, priority=0)
        second = asyncio.create_task(gate.enter("a", arrived_s=loop.time(), allowed_s=100.0, priority=0))
        await asyncio.sleep(0)
        loop.call_later(100.0 * WAIT_SHARE, second.cancel)  # just after the end of the wait
        with pytest.raises(asyncio.CancelledError):
            await second
        line = gate.lines.lines["a"]
        assert (line.waiting, line.turned_away, line.left, gate.lines.waiting) == (0, 1, 0, 0)
        gate.leave(first, served=True)

    simulate(main)


@pytest.mark.parametrize("setting", ["header:x-kind=small,large", "field:kind"])
async def test_kinds_are_told_apart_over_http_and_grpc(setting: str) -> None:
    made = service()
    executor = await executor_of(made)
    kinds = RequestKinds.parse(setting, where="--lines")
    gateway = Gateway(made, executor, GatewaySettings(remote=False, kinds=kinds, doors=2))
    await gateway.start()
    server = GrpcGatewayServer(gateway.door, host="127.0.0.1", port=0)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            for kind in ("small", "large", "large"):
                request: dict[str, Any] = {"json": {"kind": kind}, "headers": {"X-Kind": kind}}
                async with session.post(f"{gateway.url}/v1/request", **request) as answer:
                    assert answer.status == 200
        async with aio.insecure_channel(server.url.removeprefix("grpc://")) as channel:
            message = payload_message(msgspec.json.encode(Asked("small")))
            await channel.unary_unary(ASK_METHOD)(message, metadata=(("x-kind", "small"),), timeout=10)
        found = executor.status()["lines"]["kinds"]
        assert {kind: line["started"] for kind, line in found.items()} == {"small": 2, "large": 2}
    finally:
        await server.stop()
        await gateway.stop(grace_s=1.0, linger_s=0.0)


async def test_a_request_that_waits_too_long_is_told_so_over_http_and_grpc() -> None:
    made = service()
    executor = await executor_of(made, limit=1)
    gateway = Gateway(made, executor, GatewaySettings(remote=False, doors=2))
    await gateway.start()
    server = GrpcGatewayServer(gateway.door, host="127.0.0.1", port=0)
    await server.start()
    blocker = asyncio.create_task(executor.run(Asked("", 1.0)))
    try:
        async with aiohttp.ClientSession() as session:
            headers = {"kw-deadline-ms": "60"}
            async with session.post(f"{gateway.url}/v1/request", json={}, headers=headers) as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
                assert "wait too long" in (await answer.json())["error"]
        async with aio.insecure_channel(server.url.removeprefix("grpc://")) as channel:
            with pytest.raises(aio.AioRpcError) as caught:
                await channel.unary_unary(ASK_METHOD)(payload_message(b"{}"), timeout=0.4)
            assert caught.value.code() is StatusCode.RESOURCE_EXHAUSTED
    finally:
        blocker.cancel()
        await gather(blocker)
        await server.stop()
        await gateway.stop(grace_s=1.0, linger_s=0.0)


async def test_without_lines_the_status_says_so() -> None:
    made = service()
    transport = LocalTransport(made)
    await transport.setup()
    executor = Executor(
        made, transport, replicas=local_replicas(made), clock=SystemClock(), rng=random.Random(1)
    )
    await executor.run(Asked(), kind="a")
    assert executor.status()["lines"] is None
