"""Answers that stream over gRPC, from a handler through the gateway's door to a client of gRPC's own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from grpc import StatusCode, aio

from kwiken.runtime.base.clock import SystemClock
from kwiken.runtime.engine.executor import Executor
from kwiken.runtime.gateway.grpc_server import GrpcGatewayServer
from kwiken.runtime.gateway.server import Gateway
from kwiken.runtime.gateway.settings import GatewaySettings
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.wire.frames.transport import FrameTransport
from kwiken.runtime.wire.grpc import server as grpc_server
from kwiken.runtime.wire.transport.base import Replica
from tests.support.peers.grpc_messages import Answer, Request, ask_of, stream_of
from tests.support.runtime.streaming import Script, service
from tests.support.runtime.waiting import found, until

LARGE = 50_000  # bytes of an item that is longer than a frame


class Door:
    """A gateway before replicas of a stage that streams, and a client of its door for gRPC."""

    def __init__(self, gateway: Gateway, executor: Executor, channel: Any, target: str) -> None:
        self.gateway = gateway
        self.target = target
        self.executor = executor
        self.channel = channel

    def stream(self, script: Script, *, timeout: float | None = 30.0, **metadata: str) -> Any:
        entries = tuple((name.replace("_", "-"), value) for name, value in metadata.items())
        text = msgspec.json.encode(script).decode()
        return stream_of(self.channel)(Request(json=text), timeout=timeout, metadata=entries)

    async def read(self, script: Script, **settings: Any) -> tuple[list[Any], aio.AioRpcError | None]:
        """Messages of a stream, and the error that ended it; None for none."""
        messages: list[Any] = []
        call = self.stream(script, **settings)
        try:
            while (message := await call.read()) is not aio.EOF:
                messages.append(message)
        except aio.AioRpcError as error:
            return messages, error
        return messages, None


@contextlib.asynccontextmanager
async def opened(**settings: Any) -> AsyncIterator[Door]:
    async with contextlib.AsyncExitStack() as ends:
        transport = await ends.enter_async_context(FrameTransport(service, raw=True))
        replicas: dict[str, list[Replica]] = {}
        for name in service.stages:
            server = ReplicaServer(service, name)
            await server.start()
            ends.push_async_callback(server.stop, grace_s=0.0)
            replicas[name] = [Replica(f"{name}-0", "node", server.url)]
        executor = Executor(
            service,
            transport,
            replicas=replicas,
            clock=SystemClock(),
            rng=random.Random(1),
            control_share=0.0,
        )
        gateway = Gateway(service, executor, GatewaySettings(**settings))
        await gateway.start()
        ends.push_async_callback(gateway.stop, grace_s=0.0)
        door = GrpcGatewayServer(gateway.door, host="127.0.0.1", port=0)
        await door.start()
        ends.push_async_callback(door.stop)
        target = door.url.removeprefix("grpc://")
        channel = await ends.enter_async_context(aio.insecure_channel(target))
        yield Door(gateway, executor, channel, target)


def numbers(messages: list[Any]) -> list[int]:
    return [json.loads(message.json)["number"] for message in messages if message.json]


@pytest.mark.parametrize(("count", "pad"), [(0, 0), (1, 0), (1000, 20), (12, LARGE)])
async def test_items_arrive_in_order_and_the_last_message_is_the_end(count: int, pad: int) -> None:
    async with opened() as door:
        messages, error = await door.read(Script(count, pad=pad))
        assert error is None
        assert numbers(messages) == list(range(count))
        assert messages[-1] == Answer(json="", utility=1.0)
        assert len(messages) == count + 1
        assert all(len(json.loads(each.json)["pad"]) == pad for each in messages[:-1])
        await until(lambda: not door.gateway.door.budget.taken)


async def test_each_item_comes_before_the_next_is_made_and_a_client_that_leaves_ends_the_handler(
    tmp_path: Path,
) -> None:
    async with opened() as door:
        call = door.stream(Script(3, gap_ms=3_600_000, log=str(tmp_path)), timeout=None)
        assert numbers([await call.read()]) == [0]
        assert found(tmp_path, "ended") == []
        call.cancel()
        await until(lambda: found(tmp_path, "cancelled"))
        await until(lambda: door.executor.status()["cancelled"] == 1)
        assert door.executor.status()["failed"] == 0
        await until(lambda: not door.gateway.door.budget.taken)


async def test_a_client_that_reads_nothing_stops_the_handler_until_it_reads(tmp_path: Path) -> None:
    async with opened() as door:
        call = door.stream(Script(1_000_000, pad=1000, log=str(tmp_path)), timeout=300.0)
        assert numbers([await call.read()]) == [0]
        await until(lambda: found(tmp_path, "reached"))
        reached = tmp_path / found(tmp_path, "reached")[0]
        last = -1
        while (now := int(reached.read_text() or 0)) != last:
            last = now
            await asyncio.sleep(0.3)
        # Buffers of the kernel, some megabytes, and a few windows of our own, all far below a gigabyte.
        assert last < 20_000
        assert 0 < door.gateway.door.budget.taken < 1 << 18
        assert found(tmp_path, "ended") == []
        for number in range(1, last):
            assert numbers([await call.read()]) == [number]
        await until(lambda: int(reached.read_text() or 0) > last)
        call.cancel()
        await until(lambda: not door.gateway.door.budget.taken)


async def test_an_error_before_the_first_item_or_after_it_is_the_status_of_the_call() -> None:
    async with opened() as door:
        for fails_at in (0, 2):
            messages, error = await door.read(Script(3, fail_at=fails_at))
            assert numbers(messages) == list(range(fails_at))
            assert error is not None
            assert (error.code(), error.details()) == (
                StatusCode.UNKNOWN,
                "stage 'count': ValueError: told to fail",
            )
        messages, error = await door.read(Script(3, gap_ms=3_600_000), timeout=0.5)
        assert error is not None
        assert (numbers(messages), error.code()) == ([0], StatusCode.DEADLINE_EXCEEDED)
        malformed = stream_of(door.channel)(Request(json="{}"))
        with pytest.raises(aio.AioRpcError) as caught:
            await malformed.read()
        assert caught.value.code() is StatusCode.INVALID_ARGUMENT


async def test_ask_gives_the_list_of_all_items_and_the_end_of_a_stream_has_the_timing_asked_for() -> None:
    async with opened() as door:
        answer = await ask_of(door.channel)(Request(json=msgspec.json.encode(Script(3)).decode()))
        assert [item["number"] for item in json.loads(answer.json)] == [0, 1, 2]
        messages, error = await door.read(Script(2), kw_timing="1")
        assert error is None
        assert json.loads(messages[-1].timing_json)["total_ms"] > 0


async def test_an_item_without_room_in_the_budget_ends_the_stream_as_overload() -> None:
    async with opened(max_bodies=1 << 20) as door:
        budget = door.gateway.door.budget
        budget.take((1 << 20) - 30_000)
        messages, error = await door.read(Script(3))
        assert error is not None
        assert (messages, error.code()) == ([], StatusCode.RESOURCE_EXHAUSTED)
        assert "too many bytes of answers are held" in (error.details() or "")
        budget.give((1 << 20) - 30_000)
        messages, error = await door.read(Script(3))
        assert (numbers(messages), error) == ([0, 1, 2], None)
        await until(lambda: not budget.taken)


async def test_a_client_that_takes_no_item_for_too_long_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_server, "SEND_S", 0.2)
    async with opened() as door:
        call = door.stream(Script(1_000_000, pad=1000, log=str(tmp_path)), timeout=300.0)
        assert numbers([await call.read()]) == [0]
        await until(lambda: found(tmp_path, "cancelled"))
        assert await call.code() is StatusCode.UNAVAILABLE
        await until(lambda: not door.gateway.door.budget.taken)
