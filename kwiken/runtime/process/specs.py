"""Specifications of server processes, and the report that a started process prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from kwiken.runtime.decisions.trace_sampling import DRAWN_SHARE
from kwiken.runtime.process.log_format import LogFormat, LogLevel
from kwiken.runtime.wire.tls.files import TlsFiles
from kwiken.runtime.wire.transport.base import Replica

TraceMode = Literal["all", "sampled", "off"]


class ReplicaSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="replica"):
    """Specification of a process that serves one stage.

    Attributes:
        port: port to listen on; 0 for any free port.
        traces: folder for spans; None for none.
        otlp: endpoint for spans; None for none.
        grace_s: seconds that calls in flight get when the process is told to stop.
        max_inflight: largest number of calls at once, 1 or more; further ones are refused.
        max_bodies: bytes that all calls together may hold; None for a share of the memory.
        shows_metrics: whether it shows its metrics at `/metrics`.
        metrics_otlp: endpoint for metrics; None for none.
        tls: files for calls over TLS; None for calls without.
    """

    target: str
    stage: str
    host: str = "127.0.0.1"
    port: int = 0
    replica: str = ""
    node: str = "local"
    traces: str | None = None
    otlp: str | None = None
    grace_s: float = 10.0
    max_inflight: int = 64
    max_bodies: int | None = None
    shows_metrics: bool = True
    metrics_otlp: str | None = None
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    tls: TlsFiles | None = None


class GatewaySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gateway"):
    """Specification of a process that is a service's gateway.

    Attributes:
        port: port to listen on; 0 for any free port.
        local: whether to run every stage in this process.
        grpc_port: port to take requests at over gRPC, 0 for any free port; None to take none.
        shares_grpc_port: whether other gateways take requests at that port too.
        replicas: by stage, `HOST:PORT` of its replicas, or `grpc://HOST:PORT` of a foreign service's; host
            names are looked up repeatedly.
        plan: file with the plan, read again when it changes; None for none.
        token_file: file with the token of the control routes; None closes those routes.
        traces: folder for spans; None for none.
        otlp: endpoint for spans; None for none.
        trace: which requests' spans go there: all, those that the sampler keeps, or none.
        trace_share: share of all requests that the sampler draws uniformly, above 0, at most 1.
        grace_s: seconds that requests in flight get when the process is told to stop.
        sockets: file descriptors of sockets that listen at this host and port already; empty to open new
            ones.
        kept: file in which the plan in force is saved; None for none.
        follows_kept: whether other gateways save their plans in that file too, so that it is followed.
        takes_over: whether another gateway ran before, so that its saved plan continues.
        known: by stage, replicas at the start.
        max_bodies: bytes that all requests together may hold; None for a share of the memory.
        allowed_hosts: further host names that the gateway answers to, and whose pages may send requests.
        metrics: who may read `/metrics`: anybody, those with the token, or nobody.
        metrics_otlp: endpoint for metrics; None for none.
        gateways: URL of each gateway of the cluster, for the list of what Prometheus may scrape, and as its
            siblings.
        siblings: `HOST:PORT` of other gateways, which learn of plans from one another; host names are looked
            up repeatedly.
        name: name of this gateway in its log, its status and its metrics; empty for one by its machine.
        autopilot: command of an autopilot that runs beside the gateway, but for its `--url`; empty for none.
        lines: place in which requests name the kind by which they wait in lines, as `RequestKinds.parse`
            reads it, or `off`; None for what the service says.
        tls: files for requests over TLS, and for calls to siblings; None for requests without.
        replica_tls: files for calls to replicas over TLS; None for calls without.
    """

    target: str
    host: str = "127.0.0.1"
    port: int = 0
    grpc_port: int | None = None
    shares_grpc_port: bool = False
    local: bool = False
    replicas: dict[str, list[str]] = {}
    plan: str | None = None
    token_file: str | None = None
    traces: str | None = None
    otlp: str | None = None
    trace: TraceMode = "sampled"
    trace_share: float = DRAWN_SHARE
    grace_s: float = 10.0
    sockets: list[int] = []
    kept: str | None = None
    follows_kept: bool = False
    takes_over: bool = False
    known: dict[str, list[Replica]] = {}
    max_bodies: int | None = None
    allowed_hosts: list[str] = []
    metrics: Literal["open", "token", "off"] = "open"
    metrics_otlp: str | None = None
    gateways: list[str] = []
    siblings: list[str] = []
    name: str = ""
    autopilot: list[str] = []
    lines: str | None = None
    tls: TlsFiles | None = None
    replica_tls: TlsFiles | None = None
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"


Spec = ReplicaSpec | GatewaySpec


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """Line that a child process prints: its URL, or the error that kept it from starting."""

    url: str | None = None
    error: str | None = None


Announce = Callable[[str], None]
