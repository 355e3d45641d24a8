"""Specifications of a cluster's processes, from the cluster's settings."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.gateway.settings import GatewayConfig, ServerConfig
from kwiken.runtime.process.specs import GatewaySpec, ReplicaSpec
from kwiken.runtime.wire.transport.base import Replica

LOOPBACK: Final = "127.0.0.1"  # no other machine has business with a replica of a local cluster
MAX_KNOWN: Final = 500  # replicas that fit into a process's arguments


def local_url(host: str, port: int, *, secure: bool = False) -> str:
    """URL at which this machine reaches a server.

    Args:
        host: address that the server listens on, which may stand for every address.
        secure: whether it speaks TLS.
    """
    try:
        if ipaddress.ip_address(host).is_unspecified:  # every address, loopback among them
            host = "::1" if ":" in host else "127.0.0.1"
    except ValueError:
        pass  # a name
    scheme = "https" if secure else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def gateway_spec(
    target: str,
    settings: ClusterSettings,
    *,
    sockets: Sequence[int],
    port: int,
    grpc_port: int | None,
    shown: Sequence[str],
    kept: Path,
    takes_over: bool,
    known: Mapping[str, list[Replica]],
    name: str,
) -> GatewaySpec:
    """Specification of the gateway.

    Args:
        name: name of the gateway among the processes of the cluster.
        sockets: file descriptors of the gateway's listening sockets.
        grpc_port: port for requests over gRPC, which the gateways share if there are several; None for none.
        shown: URL of each gateway of the cluster.
        kept: file in which the plan in force is saved.
        known: replicas that are running, by stage.
    """
    count = sum(len(replicas) for replicas in known.values())
    return GatewaySpec(
        **settings.part(GatewayConfig) | {"port": port, "grpc_port": grpc_port},
        target=target,
        shares_grpc_port=settings.gateways > 1,
        kept=str(kept),
        takes_over=takes_over,
        sockets=list(sockets),
        gateways=list(shown),
        name=name,
        known=dict(known) if count <= MAX_KNOWN else {},
    )


def replica_spec(target: str, settings: ClusterSettings, *, stage: str, name: str, node: str) -> ReplicaSpec:
    """Specification of a replica."""
    own: dict[str, Any] = {"host": LOOPBACK, "port": 0, "max_bodies": None, "tls": None}
    if settings.trace == "off":
        own |= {"traces": None, "otlp": None}
    return ReplicaSpec(
        **settings.part(ServerConfig) | own,
        target=target,
        stage=stage,
        replica=name,
        node=node,
        max_inflight=settings.max_inflight,
    )
