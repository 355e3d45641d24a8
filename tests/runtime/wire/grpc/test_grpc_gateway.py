"""Front door over gRPC: the same answers, priorities, deadlines and refusals as over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from grpc import StatusCode, aio

from kwiken.model.plan.plan import Budgets, Costs, PartialPolicy, Plan, StagePlan
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial
from kwiken.otel.write.records import RequestRecord
from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.decisions.admission import Limits
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.grpc_server import GrpcGatewayServer
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.wire.transport.local import LocalTransport, local_replicas
from tests.support.peers.grpc_messages import Answer, Request, ask_of, stream_of
from tests.support.runtime.waiting import found, until
from tests.support.services.http import service


class Door:
    """A gateway with both front doors, and a client of the one for gRPC."""

    def __init__(self, gateway: Gateway, executor: Executor, channel: Any, server: GrpcGatewayServer) -> None:
        self.gateway = gateway
        self.executor = executor
        self.channel = channel
        self.server = server

    def send(self, body: Any, *, timeout: float = 5.0, **metadata: str) -> Any:
        entries = tuple((name.replace("_", "-"), value) for name, value in metadata.items())
        text = body if isinstance(body, str) else json.dumps(body)
        return ask_of(self.channel)(Request(json=text), timeout=timeout, metadata=entries)

    async def ask(self, body: Any, **settings: Any) -> Any:
        return await self.send(body, **settings)

    async def refused(self, body: Any, **settings: Any) -> tuple[StatusCode, str, str | None]:
        """Code, message and retry pushback of a request that fails."""
        with pytest.raises(aio.AioRpcError) as caught:
            await self.send(body, **settings)
        error = caught.value
        trailing = dict(error.trailing_metadata() or ())
        return error.code(), error.details() or "", trailing.get("grpc-retry-pushback-ms")


@contextlib.asynccontextmanager
async def opened(target: Service = service, **settings: Any) -> AsyncIterator[Door]:
    executor = Executor(
        target,
        LocalTransport(target),
        replicas=local_replicas(target),
        clock=SystemClock(),
        rng=random.Random(1),
        **settings,
    )
    gateway = Gateway(target, executor)
    await gateway.start()
    server = GrpcGatewayServer(gateway.door, host="127.0.0.1", port=0)
    await server.start()
    try:
        async with aio.insecure_channel(server.url.removeprefix("grpc://")) as channel:
            yield Door(gateway, executor, channel, server)
    finally:
        await gateway.stop(grace_s=0.0, linger_s=0.0)
        await server.stop()


async def test_both_doors_give_the_same_answer_and_count_together() -> None:
    async with opened() as door, aiohttp.ClientSession() as session:
        answer = await door.ask({"text": "hi"})
        assert answer == Answer(json='{"said":"HI0 HI1"}', utility=1.0)
        async with session.post(door.gateway.url + "/v1/request", json={"text": "hi"}) as response:
            assert (await response.json())["answer"] == json.loads(answer.json)
        assert door.gateway.door.answered == {200: 2}


async def test_what_is_wrong_with_a_request_is_told_as_over_http() -> None:
    async with opened() as door, aiohttp.ClientSession() as session:
        for text in ('{"text": 3}', "{}", '{"text": "a", "more": 1}', '{"text": ', ""):
            code, reason, pushback = await door.refused(text)
            async with session.post(
                door.gateway.url + "/v1/request", data=text, headers={"Content-Type": "application/json"}
            ) as response:
                assert (response.status, (await response.json())["error"]) == (400, reason)
            assert (code, pushback) == (StatusCode.INVALID_ARGUMENT, None)
        raw = door.channel.unary_unary("/kwiken.v1.Gateway/Ask")
        with pytest.raises(aio.AioRpcError, match="not a message of Protocol Buffers"):
            await raw(b"\x0a\xff")
        code, reason, _ = await door.refused({"text": "hi"}, kw_priority="x")
        assert (code, "kw-priority" in reason) == (StatusCode.INVALID_ARGUMENT, True)


async def test_records_state_the_door_and_the_code_that_was_sent() -> None:
    class Kept:
        def __init__(self) -> None:
            self.records: list[RequestRecord] = []

        def request_finished(self, record: RequestRecord) -> None:
            self.records.append(record)

    kept = Kept()
    async with opened(observer=kept) as door, aiohttp.ClientSession() as session:
        await door.ask({"text": "hi"})
        code, _, _ = await door.refused({"text": "hi", "fail": True})
        async with session.post(
            door.gateway.url + "/v1/request", json={"text": "hi", "fail": True}
        ) as response:
            assert response.status == 500
    told = [(each.entry.operation, each.entry.url, each.status) for each in kept.records if each.entry]
    assert told == [
        ("kwiken.v1.Gateway/Ask", door.server.url, "OK"),
        ("kwiken.v1.Gateway/Ask", door.server.url, code.name),
        ("POST", door.gateway.url, 500),
    ]


async def test_a_handlers_error_and_a_long_reason() -> None:
    target = Service("failing")

    @target.stage()
    async def only(text: str) -> str:
        raise ValueError("\u00e4\n" * 3000)

    async with opened(target) as door:
        code, reason, pushback = await door.refused('"hi"')
        assert (code, pushback) == (StatusCode.UNKNOWN, None)
        assert reason.startswith("stage 'only': ValueError: \u00e4\n\u00e4")
        assert len(reason) == 1000


async def test_an_error_of_the_gateway_itself_is_internal_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as door:
        door.executor.run = None  # type: ignore[assignment,method-assign]
        code, reason, _ = await door.refused({"text": "hi"})
    assert (code, reason.partition(":")[0]) == (StatusCode.INTERNAL, "TypeError")
    assert "request failed" in caplog.text


async def test_the_deadline_is_the_calls_own(tmp_path: Path) -> None:
    async with opened() as door:
        slow = {"text": "hi", "sleep_ms": 20_000, "log": str(tmp_path)}
        code, *_ = await door.refused(slow, timeout=0.2)
        assert code is StatusCode.DEADLINE_EXCEEDED
        await until(lambda: len(found(tmp_path, "cancelled")) == len(found(tmp_path, "started")) >= 2)
        # The gateway ends it a little sooner than gRPC, so that it knows why; a slow machine may be too late.
        await until(lambda: door.gateway.door.answered[504] + door.executor.status()["cancelled"] == 1)


async def test_cancelling_a_call_cancels_the_work(tmp_path: Path) -> None:
    async with opened() as door:
        call = door.send({"text": "hi", "sleep_ms": 20_000, "log": str(tmp_path)})
        await until(lambda: len(found(tmp_path, "started")) >= 2)
        call.cancel()
        await until(lambda: len(found(tmp_path, "cancelled")) == 2)
        assert door.executor.status()["cancelled"] == 1


async def test_priority_decides_who_is_turned_away_and_when_to_come_again() -> None:
    async with opened(limits=Limits(requests=4, always=4)) as door:
        held = [asyncio.ensure_future(door.send({"text": "a", "sleep_ms": 400})) for _ in range(4)]
        await until(lambda: door.executor.status()["inside"] == 4)
        code, reason, pushback = await door.refused({"text": "b"}, kw_priority="-5")
        assert (code, reason) == (StatusCode.RESOURCE_EXHAUSTED, "overloaded; try again later")
        assert pushback is not None
        assert int(pushback) > 0
        await asyncio.gather(*held)
        assert door.gateway.door.answered == {503: 1, 200: 4}


async def test_trace_context_and_timing_are_those_of_http() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with opened() as door:
        answer = await door.ask({"text": "hi"}, kw_timing="1", traceparent=f"00-{trace}-b7ad6b7169203331-01")
        timing = json.loads(answer.timing_json)
        assert timing["trace_id"] == trace
        assert {span["stage"] for span in timing["spans"]} == {"first", "middle", "last"}
        assert not (await door.ask({"text": "hi"})).timing_json


async def test_a_partial_answer_tells_its_utility() -> None:
    target = Service("partial")

    @target.stage(fanout=4, idempotent=True)
    async def part(text: str, *, shard: int) -> str:
        await asyncio.sleep(5.0 if shard == 3 else 0.0)
        return text

    @target.stage(after=[part])
    async def whole(parts: Partial[str]) -> int:
        return len(parts.present)

    async with opened(target, control_share=0.0) as door:
        door.executor.apply(
            Plan(
                version=1,
                service="partial",
                created="2026-01-01T00:00:00Z",
                profile="sha256:0",
                budgets=Budgets(reissue=0.0, utility_loss=1.0),
                cost=Costs(model="calls", stages={"part": 0.5, "whole": 0.5}),
                stages={
                    "part": StagePlan(
                        partial=PartialPolicy(cutoff_ms=50.0, wait_ms=None, progress=1.0, loss=0.25)
                    )
                },
            )
        )
        answer = await door.ask('"x"')
        async with (
            aiohttp.ClientSession() as session,
            session.post(door.gateway.url + "/v1/request", json="x") as response,
        ):
            over_http = await response.json()
    assert (answer.json, answer.partial) == ("3", True)
    assert over_http == {"answer": 3, "partial": True, "utility": answer.utility}
    assert 0 < answer.utility < 1


async def test_a_stopping_gateway_finishes_what_runs_and_refuses_what_comes() -> None:
    async with opened() as door:
        slow = asyncio.ensure_future(door.send({"text": "hi", "sleep_ms": 500}))
        await until(lambda: door.executor.status()["inside"] == 1)
        stopping = asyncio.create_task(door.gateway.stop(grace_s=5.0, linger_s=0.0))
        await asyncio.sleep(0.05)
        code, reason, pushback = await door.refused({"text": "late"})
        assert (code, reason, pushback) == (StatusCode.UNAVAILABLE, "the gateway is stopping", "1000")
        assert (await slow).json == '{"said":"HI0 HI1"}'
        await stopping


async def test_a_service_that_does_not_stream_has_no_method_for_streams() -> None:
    async with opened() as door:
        with pytest.raises(aio.AioRpcError) as caught:
            await stream_of(door.channel)(Request(json='{"text": "hi"}')).read()
        assert caught.value.code() is StatusCode.UNIMPLEMENTED
