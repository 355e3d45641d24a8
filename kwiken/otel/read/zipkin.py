"""Decoder of Zipkin JSON, version 2: spans are turned into Jaeger spans, so that the same rules hold."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from kwiken.otel.read.columns import UNKNOWN
from kwiken.otel.read.jaeger import JaegerProcess, Reference, Span

_NO: Final = ("false", "False", "0")
# Zipkin writes all names in lower case.
_METHOD: Final = re.compile(r"^(?:http )?(?:get|head|post|put|delete|options|patch)(?=\Z| /)")


class _Endpoint(msgspec.Struct, gc=False):
    serviceName: str | None = None  # noqa: N815 - Zipkin's names
    ipv4: str | None = None
    ipv6: str | None = None
    port: int | None = None


class _Span(msgspec.Struct):
    traceId: str  # noqa: N815
    id: str
    parentId: str | None = None  # noqa: N815
    name: str | None = None
    kind: str | None = None
    timestamp: int | None = None  # microseconds since 1970
    duration: int | None = None
    localEndpoint: _Endpoint | None = None  # noqa: N815
    remoteEndpoint: _Endpoint | None = None  # noqa: N815
    tags: dict[str, Any] | None = None


_DECODER: Final = msgspec.json.Decoder(_Span)


def as_jaeger(data: bytes | memoryview | msgspec.Raw) -> Span | None:
    """Decode one span of Zipkin; None for one without a time.

    Zipkin gives both sides of a call one id, so a server's span may have that of its caller's.

    Raises:
        msgspec.MsgspecError: the data are no span.
    """
    span = _DECODER.decode(data)
    if not span.timestamp:
        return None
    local = span.localEndpoint.serviceName if span.localEndpoint is not None else None
    return Span(
        startTime=span.timestamp,
        duration=span.duration,
        spanID=span.id,
        operationName=_METHOD.sub(lambda found: found[0].upper(), span.name or ""),
        traceID=span.traceId,
        references=[Reference(span.parentId, traceID=span.traceId)] if span.parentId else None,
        process=JaegerProcess(local or UNKNOWN),
        tags=msgspec.Raw(msgspec.json.encode(_tags(span))),
    )


def _tags(span: _Span) -> list[dict[str, Any]]:
    tags = dict(span.tags or {})
    if "error" in tags:  # a tag of any text, none too, says that the span failed
        tags["error"] = tags["error"] not in _NO
    if span.kind:
        tags["span.kind"] = span.kind.lower()
    remote = span.remoteEndpoint
    if remote is not None:
        if remote.serviceName:
            tags.setdefault("peer.service", remote.serviceName)
        address = remote.ipv4 or remote.ipv6
        if address:
            tags.setdefault("net.peer.ip", address)
    return [{"key": key, "value": value} for key, value in tags.items()]
