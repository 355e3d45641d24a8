"""Replica server: one process that serves all shards of one stage."""

from __future__ import annotations

from kwiken.runtime.replica.cpu_meter import MeteredThreads
from kwiken.runtime.replica.server import CallObserver, ReplicaServer, set_up
from kwiken.runtime.replica.stage_runner import StageRunner

__all__ = ["CallObserver", "MeteredThreads", "ReplicaServer", "StageRunner", "set_up"]
