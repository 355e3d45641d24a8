"""gRPC servers as other programs see them: health, reflection, limits, and what a wrong client is told."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from grpc import StatusCode, aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.runtime.base.errors import HandlerError, RefusedError
from kwiken.runtime.replica.grpc_server import GrpcReplicaServer
from kwiken.runtime.wire.grpc.health_check import check_health
from kwiken.runtime.wire.grpc.settings import CALL_METHOD
from kwiken.runtime.wire.grpc.transport import GrpcTransport
from tests.support.peers.grpc_messages import DESCRIPTORS, StageAnswer, StageInputs
from tests.support.peers.protocols import GRPC, Relay, call_of
from tests.support.runtime.waiting import until
from tests.support.services.http import Ask, service


@contextlib.asynccontextmanager
async def replica(target: Service = service, stage: str = "middle", **settings: Any) -> AsyncIterator[Any]:
    """A replica, and a client that knows nothing of kwiken but its `.proto`."""
    async with (
        GRPC.serving(target, stage, **settings) as (server, _),
        aio.insecure_channel(server.url.removeprefix("grpc://")) as channel,
    ):
        yield server, channel


def stub_of(channel: Any) -> Any:
    return channel.unary_unary(
        CALL_METHOD,
        request_serializer=StageInputs.SerializeToString,
        response_deserializer=StageAnswer.FromString,
    )


async def status_of(call: Any) -> tuple[StatusCode, str, dict[str, Any]]:
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    error = caught.value
    return error.code(), error.details() or "", dict(error.trailing_metadata() or ())


HI = StageInputs(inputs=msgspec.msgpack.encode([Ask("hi")]))


async def test_any_client_with_the_proto_can_call_a_stage() -> None:
    async with replica() as (_, channel):
        call = stub_of(channel)(HI, timeout=5.0, metadata=(("kw-shard", "1"),))
        answer = await call
    assert msgspec.msgpack.decode(answer.answer) == "HI1"
    assert answer.inflight == 1
    assert answer.busy_ms > 0
    assert answer.latency_ms > 0


async def test_a_client_reads_the_reason_in_the_status() -> None:
    async with replica() as (_, channel):
        call = stub_of(channel)
        failing = StageInputs(inputs=msgspec.msgpack.encode([Ask("hi", fail=True)]))
        code, details, trailing = await status_of(call(failing))
        assert (code, details) == (StatusCode.UNKNOWN, "ValueError: told to fail")
        assert msgspec.msgpack.decode(trailing["kw-failure-bin"])["kind"] == "ValueError"
        for metadata, reason in (
            ((("kw-shard", "2"),), "header kw-shard"),
            ((("kw-shard", "x"),), "header kw-shard"),
            ((("kw-priority", "10"),), "header kw-priority"),
            ((("kw-threads", "2"),), "header kw-threads"),
        ):
            code, details, _ = await status_of(call(HI, metadata=metadata))
            assert code is StatusCode.INVALID_ARGUMENT
            assert reason in details
        code, details, trailing = await status_of(call(StageInputs(inputs=HI.inputs, stage="last")))
        assert (code, trailing["kw-refused"]) == (StatusCode.FAILED_PRECONDITION, "1")
        assert details == "this is a replica of stage 'middle'"
        raw = channel.unary_unary(CALL_METHOD)
        code, details, _ = await status_of(raw(b"\xff"))
        assert (code, details.partition(":")[0]) == (StatusCode.INVALID_ARGUMENT, "InputError")


async def test_too_long_messages_and_too_many_bytes_are_refused() -> None:
    async with replica(max_body=1 << 20, max_bodies=300_000) as (_, channel):
        raw = channel.unary_unary(CALL_METHOD)
        code, details, _ = await status_of(raw(b"x" * (2 << 20)))
        assert (code, "larger than max" in details) == (StatusCode.RESOURCE_EXHAUSTED, True)
        long = msgspec.msgpack.encode([Ask("y" * 200_000, sleep_ms=300.0)])
        first = asyncio.ensure_future(stub_of(channel)(StageInputs(inputs=long)))
        await asyncio.sleep(0.1)
        code, details, trailing = await status_of(stub_of(channel)(StageInputs(inputs=long)))
        assert (code, trailing["kw-refused"]) == (StatusCode.RESOURCE_EXHAUSTED, "1")
        await first
        await stub_of(channel)(StageInputs(inputs=long)), "there is room again"


async def test_too_long_an_answer_is_the_stages_error_and_too_much_metadata_is_refused() -> None:
    async with GRPC.serving(service, "middle") as (server, address):
        async with GrpcTransport(service, max_body=1 << 16) as transport:
            with pytest.raises(HandlerError, match="ReplyTooLarge"):
                await transport.call(address, call_of("middle", Ask("z" * 200_000)))
        async with aio.insecure_channel(server.url.removeprefix("grpc://")) as channel:
            code, *_ = await status_of(stub_of(channel)(HI, metadata=(("more", "x" * 40_000),)))
    assert code is StatusCode.RESOURCE_EXHAUSTED


async def test_health_follows_the_life_of_a_replica() -> None:
    set_up = asyncio.Event()
    target = Service("slow_start")

    async def wait() -> None:
        await set_up.wait()

    @target.stage(setup=wait)
    async def only(text: str) -> str:
        return text

    server = GrpcReplicaServer(target, "only")
    starting = asyncio.create_task(server.start())
    await until(lambda: not server.url.endswith(":0"))
    async with aio.insecure_channel(server.url.removeprefix("grpc://")) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        async def state(name: str = "") -> int:
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name), wait_for_ready=True)
            found: int = answer.status
            return found

        serving = health_pb2.HealthCheckResponse.SERVING
        assert await state() == health_pb2.HealthCheckResponse.NOT_SERVING
        code, details, trailing = await status_of(stub_of(channel)(HI))
        assert (code, details, trailing["kw-refused"]) == (StatusCode.UNAVAILABLE, "starting", "1")
        set_up.set()
        await starting
        assert (await state(), await state("kwiken.v1.Stage")) == (serving, serving)
        stopping = asyncio.create_task(server.stop(grace_s=2.0, linger_s=0.5))
        await asyncio.sleep(0)
        assert await state() == health_pb2.HealthCheckResponse.NOT_SERVING
        code, details, _ = await status_of(stub_of(channel)(HI))
        assert (code, details) == (StatusCode.UNAVAILABLE, "stopping")
        await stopping


async def test_reflection_tells_the_services_and_the_file() -> None:
    async with replica() as (_, channel):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)

        async def ask(**what: str) -> Any:
            async def requests() -> AsyncIterator[Any]:
                yield reflection_pb2.ServerReflectionRequest(**what)

            async for answer in stub.ServerReflectionInfo(requests()):
                return answer
            raise AssertionError("no answer")

        listed = (await ask(list_services="")).list_services_response.service
        assert {each.name for each in listed} == {
            "kwiken.v1.Stage",
            "grpc.health.v1.Health",
            "grpc.reflection.v1alpha.ServerReflection",
        }
        told = (await ask(file_containing_symbol="kwiken.v1.Stage")).file_descriptor_response
        (file,) = told.file_descriptor_proto
        assert type(DESCRIPTORS.file[0]).FromString(file) == DESCRIPTORS.file[0]
        assert not any(
            field.proto3_optional for kind in DESCRIPTORS.file[0].message_type for field in kind.field
        ), "parsers older than protobuf 3.12 refuse `optional`"
        # Tools that describe a method ask for its own symbol.
        for method in ("kwiken.v1.Stage.Call", "grpc.health.v1.Health.Check"):
            found = await ask(file_containing_symbol=method)
            assert len(found.file_descriptor_response.file_descriptor_proto) == 1
            assert found.original_request.file_containing_symbol == method
        for missing in ("kwiken.v1.Stage.Nothing", "kwiken.v1.Nothing.Call", "nothing"):
            found = await ask(file_containing_symbol=missing)
            assert found.error_response.error_code == StatusCode.NOT_FOUND.value[0]


async def test_a_health_check_tells_alive_from_closed_and_silent() -> None:
    async with GRPC.serving(service, "first") as (server, address):
        await check_health(server.url, 5.0)
        relay = Relay(address)
        relay.hold()
        async with relay.running() as held:
            with pytest.raises(TimeoutError):
                await check_health(held.address, 0.3)
    with pytest.raises(ConnectionError):
        await check_health(server.url, 5.0)


async def test_a_second_server_cannot_share_the_port() -> None:
    """gRPC would do so by default, and give half of the connections to the wrong stage."""
    async with GRPC.serving(service, "first") as (server, _):
        port = int(server.url.rpartition(":")[2])
        with pytest.raises(InputError, match="the port is in use"):
            await GrpcReplicaServer(service, "last", port=port).start()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


async def test_channels_that_nobody_uses_are_closed() -> None:
    class Clock:
        now = 1000.0

        def monotonic(self) -> float:
            return self.now

        def time_ns(self) -> int:
            return 0

    clock = Clock()
    async with (
        GRPC.serving(service, "first") as (_, one),
        GRPC.serving(service, "first") as (_, two),
        GrpcTransport(service, clock=clock) as transport,
    ):
        for address in (one, two):
            call = call_of("first", Ask("hi"))
            call.deadline = clock.now + 5.0
            await transport.call(address, call)
        assert set(transport._channels) == {one.address, two.address}
        clock.now += 301.0
        call.deadline = clock.now + 5.0
        with pytest.raises(RefusedError):
            await transport.call(GRPC.replica_at("grpc://127.0.0.1:1"), call)
        assert set(transport._channels) == {"grpc://127.0.0.1:1"}


@pytest.mark.parametrize("address", ["http://127.0.0.1:80", "grpc://a b:1", "grpc://127.0.0.1:0"])
async def test_an_address_of_another_form_is_refused(address: str) -> None:
    async with GRPC.transport(service) as transport:
        with pytest.raises(RefusedError, match="an address must be grpc://HOST:PORT"):
            await transport.call(GRPC.replica_at(address), call_of("first", Ask("hi")))
