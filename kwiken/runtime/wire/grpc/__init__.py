"""gRPC: calls to replicas, servers of stages, and a second front door of the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.gateway.grpc_server import GrpcGatewayServer as GrpcGatewayServer
    from kwiken.runtime.replica.grpc_server import GrpcReplicaServer as GrpcReplicaServer
    from kwiken.runtime.wire.grpc.health_check import check_health as check_health
    from kwiken.runtime.wire.grpc.remote_transport import RemoteTransport as RemoteTransport
    from kwiken.runtime.wire.grpc.transport import GrpcTransport as GrpcTransport

__getattr__ = lazy_names(__name__, __file__)
