"""Replica server: one process that serves all shards of one stage."""

from __future__ import annotations

from kwiken.runtime.replica.cpu_meter import MeteredThreads as MeteredThreads
from kwiken.runtime.replica.metrics import ReplicaMetrics as ReplicaMetrics
from kwiken.runtime.replica.server import ReplicaServer as ReplicaServer
from kwiken.runtime.replica.stage_calls import (
    NOT_TAKEN as NOT_TAKEN,
    CallObserver as CallObserver,
    EndedCall as EndedCall,
    Ending as Ending,
    ReceivedCall as ReceivedCall,
    StageCalls as StageCalls,
)
