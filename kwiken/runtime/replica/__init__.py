"""Replica server: one process that serves all shards of one stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names
from kwiken.runtime.replica.metrics import ReplicaMetrics as ReplicaMetrics
from kwiken.runtime.replica.server import ReplicaServer as ReplicaServer
from kwiken.runtime.replica.stage_calls import (
    CallObserver as CallObserver,
    Ending as Ending,
    ReceivedCall as ReceivedCall,
    StageCalls as StageCalls,
)
from kwiken.runtime.replica.stage_runner import MeteredThreads as MeteredThreads

if TYPE_CHECKING:
    from kwiken.runtime.replica.grpc_server import GrpcReplicaServer as GrpcReplicaServer

__getattr__ = lazy_names(__name__, __file__)  # gRPC takes long to import, and most replicas need none
