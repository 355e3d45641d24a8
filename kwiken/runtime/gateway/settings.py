"""Configuration of servers: of every process, of gateways, and of a gateway in this process."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

import msgspec

from kwiken.model.service.request_kinds import RequestKinds
from kwiken.runtime.decisions.trace_sampling import DRAWN_SHARE
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.files import TlsFiles

MAX_REQUEST: Final = 4 << 20  # bytes

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
TraceMode = Literal["all", "sampled", "off"]


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a server process.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0 for any free port.
        traces: folder for spans; None for none.
        otlp: endpoint for spans; None for none.
        grace_s: seconds that requests and calls in flight get when the process is told to stop.
        max_bodies: bytes that all requests together may hold, without the first 16 KiB of each; None for a
            share of the memory.
        metrics: who may read `/metrics`: anybody, those with the token of the control routes, or nobody. A
            replica has no token.
        metrics_otlp: endpoint for metrics; None for none.
        tls: files for connections over TLS; None for connections without.
    """

    host: str = "127.0.0.1"
    port: int = 0
    traces: str | None = None
    otlp: str | None = None
    grace_s: float = 10.0
    max_bodies: int | None = None
    metrics: Literal["open", "token", "off"] = "open"
    metrics_otlp: str | None = None
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    tls: TlsFiles | None = None

    def part(self, kind: type[ServerConfig]) -> dict[str, Any]:
        """Values of the fields of one of the bases, by name.

        Args:
            kind: the base, for a configuration with the same values.
        """
        return {name: getattr(self, name) for name in kind.__struct_fields__}


class GatewayConfig(ServerConfig, frozen=True, kw_only=True):
    """Configuration of a gateway.

    Attributes:
        trace: which requests' spans are written: all, those that the sampler keeps, or none.
        trace_share: share of all requests that the sampler draws uniformly, above 0, at most 1.
        grpc_port: port to take requests at over gRPC, 0 for any free port; None to take none.
        plan: file with the plan, read again when it changes; None for none.
        allowed_hosts: further host names that the gateway answers to, and whose pages may send requests.
        lines: place in which requests name the kind by which they wait in lines, as `RequestKinds.parse`
            reads it, or `off`; None for what the service says.
    """

    trace: TraceMode = "sampled"
    trace_share: float = DRAWN_SHARE
    grpc_port: int | None = None
    plan: str | None = None
    allowed_hosts: Collection[str] = ()
    lines: str | None = None


class GatewaySettings(GatewayConfig, frozen=True, kw_only=True):
    """Configuration of a gateway that runs in this process.

    Attributes:
        token: secret for the control routes; None closes them.
        remote: whether the gateway is ready only when every stage has replicas.
        max_body: longest body of a request, bytes.
        doors: number of front doors, by as many protocols, that share the connections of the process.
        name: name of this gateway, in its status and its metrics; empty for none.
        kinds: place in which requests name the kind by which they wait in lines; None for no lines. The
            executor has lines too then.
        sockets: listening sockets, used instead of host and port; empty to create new ones.
        certificates: certificates for connections over TLS; None for connections without.
    """

    token: str | None = None
    remote: bool = True
    max_body: int = MAX_REQUEST
    doors: int = 1
    name: str = ""
    kinds: RequestKinds | None = None
    sockets: Sequence[socket.socket] = ()
    certificates: Certificates | None = None
