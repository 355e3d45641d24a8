"""Settings of a cluster: what its gateway and its replicas are started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kwiken.runtime.decisions.trace_sampling import DRAWN_SHARE
from kwiken.runtime.process.log_format import LogFormat, LogLevel
from kwiken.runtime.process.specs import TraceMode
from kwiken.runtime.wire.tls.files import TlsFiles


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """Settings of the processes of a cluster, at the start and after every restart.

    Attributes:
        host: address that the gateway listens on; replicas listen on loopback alone.
        traces: folder for spans; None for none.
        otlp: endpoint for spans; None for none.
        trace: which requests' spans are written: all, those that the gateway's sampler keeps, or none.
        trace_share: share of all requests that the sampler draws uniformly, above 0, at most 1.
        grpc_port: port of the gateways for requests over gRPC, 0 for any free port; None for none.
        plan: file with the plan, followed when it changes; None for none.
        max_inflight: largest number of calls that a replica holds at once, 1 or more.
        grace_s: seconds that requests and calls in flight get at the end.
        unresponsive_s: seconds without an answer to `/livez` after which a process is killed and restarted, a
            replica not before its stage's timeout has passed too; 0 for never.
        max_bodies: bytes that all requests at the gateway together may hold; None for a share of the memory.
        gateways: number of gateways that share the ports, 1 or more; all keep one budget together.
        allowed_hosts: further host names that the gateway answers to, and whose pages may send requests.
        metrics: who may read `/metrics` of the gateway: anybody, those with the token, or nobody; replicas
            show theirs unless nobody may.
        metrics_otlp: endpoint for metrics; None for none.
        lines: place in which requests name the kind by which they wait in lines at the gateway, or `off`;
            None for what the service says.
        tls: files for requests over TLS at the gateways; None for requests without. Replicas listen on
            loopback, and are called without.
        log: file that the processes' standard error is appended to; None for that of this process.
    """

    host: str = "127.0.0.1"
    traces: Path | None = None
    otlp: str | None = None
    trace: TraceMode = "sampled"
    trace_share: float = DRAWN_SHARE
    grpc_port: int | None = None
    plan: Path | None = None
    max_inflight: int = 64
    grace_s: float = 10.0
    unresponsive_s: float = 10.0
    max_bodies: int | None = None
    gateways: int = 1
    allowed_hosts: tuple[str, ...] = ()
    metrics: Literal["open", "token", "off"] = "open"
    metrics_otlp: str | None = None
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    lines: str | None = None
    tls: TlsFiles | None = None
    log: Path | None = None
