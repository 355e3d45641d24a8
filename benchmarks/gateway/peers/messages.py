"""Messages of the replicas over gRPC, made from a descriptor at run time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

import kwiken.runtime
from benchmarks.gateway.peers.world import STAGES

SERVICE: Final = "peers.Stages"
_Field = descriptor_pb2.FieldDescriptorProto
_Method = descriptor_pb2.MethodDescriptorProto
_FILE: Final = descriptor_pb2.FileDescriptorProto(
    name="benchmark_peers.proto",
    package="peers",
    syntax="proto3",
    message_type=[
        descriptor_pb2.DescriptorProto(
            name="Item",
            field=[_Field(name="id", number=1, type=_Field.TYPE_INT32, label=_Field.LABEL_OPTIONAL)],
        )
    ],
    service=[
        descriptor_pb2.ServiceDescriptorProto(
            name="Stages",
            method=[
                _Method(name=stage.title(), input_type=".peers.Item", output_type=".peers.Item")
                for stage in STAGES
            ],
        )
    ],
)


def _item() -> Any:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_FILE)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("peers.Item"))


Numbered: Final = _item()  # request and answer of every stage: the number of the request


def path_of(stage: str) -> str:
    """Path of a stage's method."""
    return f"/{SERVICE}/{stage.title()}"


def descriptors() -> bytes:
    """Serialised descriptor set, for who calls without generated code."""
    found: bytes = descriptor_pb2.FileDescriptorSet(file=[_FILE]).SerializeToString()
    return found


def front_door() -> tuple[Any, Any]:
    """Request and answer of kwiken's gateway, as a client written without kwiken has them."""
    folder = Path(kwiken.runtime.__file__).parent / "wire" / "grpc"
    files = descriptor_pb2.FileDescriptorSet.FromString((folder / "kwiken.binpb").read_bytes()).file
    found = message_factory.GetMessages(list(files))
    return found["kwiken.v1.Request"], found["kwiken.v1.Answer"]
