"""Runtime: executes a service's DAG with reissues, budgets, replica choice and transports.

Names that need sockets or processes load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.runtime.clock import Clock, SystemClock
    from kwiken.runtime.cluster import Cluster, ClusterSettings
    from kwiken.runtime.decisions import Limits
    from kwiken.runtime.engine import Answer, Executor
    from kwiken.runtime.errors import (
        AllFailedError,
        DeadlineError,
        HandlerError,
        LostError,
        OverloadError,
        RefusedError,
        UnavailableError,
    )
    from kwiken.runtime.gateway import Gateway, GatewaySettings
    from kwiken.runtime.grpc import GrpcReplicaServer, GrpcTransport, RemoteTransport
    from kwiken.runtime.replica import ReplicaServer
    from kwiken.runtime.transport import (
        Call,
        HttpTransport,
        LocalTransport,
        Replica,
        Reply,
        Transport,
        local_replicas,
    )

__all__ = [
    "AllFailedError",
    "Answer",
    "Call",
    "Clock",
    "Cluster",
    "ClusterSettings",
    "DeadlineError",
    "Executor",
    "ForeignTransport",
    "Gateway",
    "GatewaySettings",
    "GrpcReplicaServer",
    "GrpcTransport",
    "HandlerError",
    "HttpTransport",
    "Limits",
    "LocalTransport",
    "LostError",
    "OverloadError",
    "RefusedError",
    "RemoteTransport",
    "Replica",
    "ReplicaServer",
    "Reply",
    "SystemClock",
    "Transport",
    "UnavailableError",
    "local_replicas",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.runtime.clock": (
            "Clock",
            "SystemClock",
        ),
        "kwiken.runtime.cluster": ("Cluster", "ClusterSettings"),
        "kwiken.runtime.decisions": ("Limits",),
        "kwiken.runtime.engine": (
            "Answer",
            "Executor",
        ),
        "kwiken.runtime.errors": (
            "AllFailedError",
            "DeadlineError",
            "HandlerError",
            "LostError",
            "OverloadError",
            "RefusedError",
            "UnavailableError",
        ),
        "kwiken.runtime.foreign": ("ForeignTransport",),
        "kwiken.runtime.gateway": ("Gateway", "GatewaySettings"),
        "kwiken.runtime.grpc": (
            "GrpcReplicaServer",
            "GrpcTransport",
            "RemoteTransport",
        ),
        "kwiken.runtime.replica": ("ReplicaServer",),
        "kwiken.runtime.transport": (
            "Call",
            "HttpTransport",
            "LocalTransport",
            "Replica",
            "Reply",
            "Transport",
            "local_replicas",
        ),
    },
)
