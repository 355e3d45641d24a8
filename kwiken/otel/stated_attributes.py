"""Attributes of HTTP and RPC that our own spans state, by the semantic conventions of one version.

By these Jaeger, Tempo and the collector's span metrics and service graphs know what a span of any tracer is.
Only what has few values is stated: no path with a value of a user in it, and no query.
"""

from __future__ import annotations

import os
from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.45.0"
CALL_PATH: Final = "/call"  # of a replica of ours
CALL_METHOD: Final = "kwiken.v1.Stage/Call"
POST: Final = "POST"
_GRPC: Final = "grpc"
_HTTP: Final = "http"
_ANY: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 - compared with, not bound to

Stated = list[tuple[str, str | int | float | bool]]


def server_attributes(url: str, operation: str, route: str, status: int | str | None) -> Stated:
    """Attributes of a server's span.

    Args:
        url: `http://HOST:PORT` or `grpc://HOST:PORT` that the server listens at.
        operation: method over HTTP; `package.Service/Method` over gRPC.
        route: path over HTTP, which has no placeholders; empty over gRPC.
        status: status that was sent: a number over HTTP, the code's name over gRPC; None for none.
    """
    paths: Stated = [("http.route", route), ("url.path", route)] if route else []
    return [*_operation(url, operation), *paths, *_address(url), *_status(url, status)]


def client_attributes(address: str, operation: str, attempt: int, status: int | str | None) -> Stated:
    """Attributes of a client's span; none for an address that is no URL of HTTP or gRPC.

    Args:
        address: URL of the server, without a path.
        operation: method over HTTP, `package.Service/Method` over gRPC; empty for a replica of ours.
        attempt: number of the attempt, from 0.
        status: status of the answer, as of a server's span; None for none.
    """
    own = CALL_METHOD if _scheme(address) == _GRPC else POST
    resent: Stated = [("http.request.resend_count", attempt)] if attempt and _scheme(address) == _HTTP else []
    return [*_operation(address, operation or own), *resent, *_address(address), *_status(address, status)]


def _scheme(url: str) -> str:
    return url.partition("://")[0]


def _operation(url: str, operation: str) -> Stated:
    if _scheme(url) == _HTTP:
        return [("http.request.method", operation)]
    if _scheme(url) == _GRPC:
        return [("rpc.system.name", _GRPC), ("rpc.method", operation)]
    return []


def _address(url: str) -> Stated:
    """Host and port of a URL; the name of this machine for a server that listens at all its addresses."""
    scheme, _, rest = url.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme not in {_HTTP, _GRPC} or not port.isdecimal():
        return []
    host = host.strip("[]")
    return [("server.address", os.uname().nodename if host in _ANY else host), ("server.port", int(port))]


def _status(url: str, status: int | str | None) -> Stated:
    if status is None:
        return []
    key = "http.response.status_code" if _scheme(url) == _HTTP else "rpc.response.status_code"
    return [(key, status)]
