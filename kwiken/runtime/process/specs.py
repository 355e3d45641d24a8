"""Specifications of server processes, and the report that a started process prints."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kwiken.runtime.gateway.settings import GatewayConfig, ServerConfig
from kwiken.runtime.wire.tls.files import TlsFiles
from kwiken.runtime.wire.transport.base import Replica


class ReplicaSpec(ServerConfig, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="replica"):
    """Specification of a process that serves one stage.

    Attributes:
        replica: name of the replica in its log, its metrics and its spans; empty for that of the stage.
        max_inflight: largest number of calls at once, 1 or more; further ones are refused.
    """

    target: str
    stage: str
    replica: str = ""
    node: str = "local"
    max_inflight: int = 64


class GatewaySpec(GatewayConfig, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="gateway"):
    """Specification of a process that is a service's gateway.

    Attributes:
        shares_grpc_port: whether other gateways take requests at the port for gRPC too.
        local: whether to run every stage in this process.
        replicas: by stage, `HOST:PORT` of its replicas, or `grpc://HOST:PORT` of a foreign service's; host
            names are looked up repeatedly.
        token_file: file with the token of the control routes; None closes those routes.
        sockets: file descriptors of sockets that listen at this host and port already; empty to open new
            ones.
        kept: file in which the plan in force is saved; None for none.
        takes_over: whether another gateway ran before, so that its saved plan continues.
        known: by stage, replicas at the start.
        gateways: URL of each gateway of the cluster, for the list of what Prometheus may scrape, and as its
            siblings.
        siblings: `HOST:PORT` of other gateways, which learn of plans from one another; host names are looked
            up repeatedly.
        name: name of this gateway in its log, its status and its metrics; empty for one by its machine.
        autopilot: command of an autopilot that runs beside the gateway, but for its `--url`; empty for none.
        replica_tls: files for calls to replicas over TLS; None for calls without.
    """

    target: str
    shares_grpc_port: bool = False
    local: bool = False
    replicas: dict[str, list[str]] = msgspec.field(default_factory=dict)
    token_file: str | None = None
    sockets: list[int] = msgspec.field(default_factory=list)
    kept: str | None = None
    takes_over: bool = False
    known: dict[str, list[Replica]] = msgspec.field(default_factory=dict)
    gateways: list[str] = msgspec.field(default_factory=list)
    siblings: list[str] = msgspec.field(default_factory=list)
    name: str = ""
    autopilot: list[str] = msgspec.field(default_factory=list)
    replica_tls: TlsFiles | None = None


Spec = ReplicaSpec | GatewaySpec


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """Line that a child process prints: its URL, or the error that kept it from starting."""

    url: str | None = None
    error: str | None = None


Announce = Callable[[str], None]
