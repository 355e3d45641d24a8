"""gRPC: calls to replicas, servers of stages, and a second front door of the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.grpc.gateway_server import GrpcGatewayServer
    from kwiken.runtime.grpc.health_check import check_health
    from kwiken.runtime.grpc.remote_transport import RemoteTransport
    from kwiken.runtime.grpc.replica_server import GrpcReplicaServer
    from kwiken.runtime.grpc.transport import GrpcTransport

__all__ = [
    "GrpcGatewayServer",
    "GrpcReplicaServer",
    "GrpcTransport",
    "RemoteTransport",
    "check_health",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.runtime.grpc.gateway_server": ("GrpcGatewayServer",),
        "kwiken.runtime.grpc.health_check": ("check_health",),
        "kwiken.runtime.grpc.remote_transport": ("RemoteTransport",),
        "kwiken.runtime.grpc.replica_server": ("GrpcReplicaServer",),
        "kwiken.runtime.grpc.transport": ("GrpcTransport",),
    },
)
