"""Foreign gRPC servers whose messages are made from descriptors at run time, without generated code."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
import grpc.aio
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from kwiken.runtime.wire.transport.base import Replica

Field = descriptor_pb2.FieldDescriptorProto
SERVICE: Final = "shop.Inventory"
FILE: Final = descriptor_pb2.FileDescriptorProto(
    name="test_inventory.proto",
    package="shop",
    syntax="proto3",
    dependency=["google/protobuf/timestamp.proto"],
    message_type=[
        descriptor_pb2.DescriptorProto(
            name="Ask",
            field=[
                Field(name="sku", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL),
                Field(name="in_store", number=2, type=Field.TYPE_INT64, label=Field.LABEL_REPEATED),
            ],
        ),
        descriptor_pb2.DescriptorProto(
            name="Stock",
            field=[
                Field(name="sku", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL),
                Field(name="pieces", number=2, type=Field.TYPE_INT64, label=Field.LABEL_OPTIONAL),
                Field(name="stamp", number=3, type=Field.TYPE_BYTES, label=Field.LABEL_OPTIONAL),
                Field(
                    name="counted_at",
                    number=4,
                    type=Field.TYPE_MESSAGE,
                    type_name=".google.protobuf.Timestamp",
                    label=Field.LABEL_OPTIONAL,
                ),
            ],
        ),
    ],
    service=[
        descriptor_pb2.ServiceDescriptorProto(
            name="Inventory",
            method=[
                descriptor_pb2.MethodDescriptorProto(
                    name="Get", input_type=".shop.Ask", output_type=".shop.Stock"
                ),
                descriptor_pb2.MethodDescriptorProto(
                    name="List", input_type=".shop.Ask", output_type=".shop.Stock", server_streaming=True
                ),
                descriptor_pb2.MethodDescriptorProto(
                    name="Put", input_type=".shop.Ask", output_type=".shop.Stock", client_streaming=True
                ),
            ],
        )
    ],
)


def _pool() -> Any:
    from google.protobuf import timestamp_pb2

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(FILE)
    return pool


POOL: Final = _pool()
Ask: Final = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Ask"))
Stock: Final = message_factory.GetMessageClass(POOL.FindMessageTypeByName("shop.Stock"))


def descriptor_set(*, whole: bool = True) -> bytes:
    """Serialised descriptor set of the service, with or without the file that it imports."""
    from google.protobuf import timestamp_pb2

    time = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    found: bytes = descriptor_pb2.FileDescriptorSet(
        file=[FILE, *([time] if whole else [])]
    ).SerializeToString()
    return found


@contextlib.asynccontextmanager
async def grpc_server(
    get: Callable[..., Any] | None = None,
    listing: Callable[..., Any] | None = None,
    *,
    reflects: bool = True,
    statuses: dict[str, bool] | None = None,
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[Replica]:
    """A server of the service; the replica's id is its address.

    Args:
        get: answers `Get`: a coroutine function of the message and gRPC's context.
        listing: answers `List`: an asynchronous generator of both.
        reflects: whether the server has reflection.
        statuses: by name, whether the server reports itself as serving; None for no health service.
        credentials: certificates of connections over TLS; None for connections without.
    """
    server = grpc.aio.server()
    codecs = {"request_deserializer": Ask.FromString, "response_serializer": Stock.SerializeToString}
    methods = {}
    if get is not None:
        methods["Get"] = grpc.unary_unary_rpc_method_handler(get, **codecs)
    if listing is not None:
        methods["List"] = grpc.unary_stream_rpc_method_handler(listing, **codecs)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    if reflects:
        reflection.enable_server_reflection((SERVICE, reflection.SERVICE_NAME), server, pool=POOL)
    if statuses is not None:
        check = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(check, server)
        for name, serving in statuses.items():
            states = health_pb2.HealthCheckResponse
            await check.set(name, states.SERVING if serving else states.NOT_SERVING)
    place = "127.0.0.1:0"
    port = (
        server.add_insecure_port(place) if credentials is None else server.add_secure_port(place, credentials)
    )
    await server.start()
    try:
        yield Replica(f"127.0.0.1:{port}", "local", f"http://127.0.0.1:{port}")
    finally:
        await server.stop(None)
