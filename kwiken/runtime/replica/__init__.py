"""Replica server: one process that serves all shards of one stage."""

from __future__ import annotations

from kwiken.runtime.replica.cpu_meter import MeteredThreads
from kwiken.runtime.replica.metrics import ReplicaMetrics
from kwiken.runtime.replica.server import ReplicaServer
from kwiken.runtime.replica.stage_calls import (
    NOT_TAKEN,
    CallObserver,
    EndedCall,
    Ending,
    ReceivedCall,
    StageCalls,
)

__all__ = [
    "NOT_TAKEN",
    "CallObserver",
    "EndedCall",
    "Ending",
    "MeteredThreads",
    "ReceivedCall",
    "ReplicaMetrics",
    "ReplicaServer",
    "StageCalls",
]
