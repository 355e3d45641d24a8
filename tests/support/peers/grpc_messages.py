"""Messages of `kwiken.proto` by Protocol Buffers itself, as a client written without kwiken has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, message_factory

FOLDER = Path(__file__).resolve().parents[3] / "kwiken" / "runtime" / "wire" / "grpc"
DESCRIPTORS = descriptor_pb2.FileDescriptorSet.FromString((FOLDER / "kwiken.binpb").read_bytes())
_CLASSES: dict[str, Any] = message_factory.GetMessages(list(DESCRIPTORS.file))
Request, Answer = (_CLASSES[f"kwiken.v1.{name}"] for name in ("Request", "Answer"))


def stream_of(channel: Any) -> Any:
    """Stub of the front door of a service that streams."""
    return channel.unary_stream(
        "/kwiken.v1.Gateway/Stream",
        request_serializer=Request.SerializeToString,
        response_deserializer=Answer.FromString,
    )


def ask_of(channel: Any) -> Any:
    """Stub of the front door."""
    return channel.unary_unary(
        "/kwiken.v1.Gateway/Ask",
        request_serializer=Request.SerializeToString,
        response_deserializer=Answer.FromString,
    )
