"""The body: executes a service's DAG. The reissue race, the budget ledger, replica choice, transports."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from runtime._clock import Clock, SystemClock
from runtime._errors import (
    AllFailedError,
    DeadlineError,
    HandlerError,
    LostError,
    OverloadError,
    RefusedError,
    UnavailableError,
    UnfitError,
)
from runtime._executor import Answer, Executor
from runtime._local import LocalTransport, local_replicas
from runtime._policy import Limits
from runtime._transport import Call, Replica, Reply, Transport

if TYPE_CHECKING:
    from runtime._cluster import Cluster
    from runtime._gateway import Gateway
    from runtime._http import HttpTransport
    from runtime._identity import Identity
    from runtime._process import GatewaySpec, ReplicaSpec, run_server
    from runtime._replica import CallObserver, ReplicaServer, ServedCall
    from runtime._state import ClusterState, ProcessState, StateFiles, stop_cluster
    from runtime._target import load_target
    from runtime._watch import parse_endpoint

# What needs sockets or processes loads on first use.
_LAZY = {
    "CallObserver": "runtime._replica",
    "Cluster": "runtime._cluster",
    "ClusterState": "runtime._state",
    "Gateway": "runtime._gateway",
    "GatewaySpec": "runtime._process",
    "HttpTransport": "runtime._http",
    "Identity": "runtime._identity",
    "ProcessState": "runtime._state",
    "ReplicaServer": "runtime._replica",
    "ReplicaSpec": "runtime._process",
    "ServedCall": "runtime._replica",
    "StateFiles": "runtime._state",
    "load_target": "runtime._target",
    "parse_endpoint": "runtime._watch",
    "run_server": "runtime._process",
    "stop_cluster": "runtime._state",
}

__all__ = [
    "AllFailedError",
    "Answer",
    "Call",
    "CallObserver",
    "Clock",
    "Cluster",
    "ClusterState",
    "DeadlineError",
    "Executor",
    "Gateway",
    "GatewaySpec",
    "HandlerError",
    "HttpTransport",
    "Identity",
    "Limits",
    "LocalTransport",
    "LostError",
    "OverloadError",
    "ProcessState",
    "RefusedError",
    "Replica",
    "ReplicaServer",
    "ReplicaSpec",
    "Reply",
    "ServedCall",
    "StateFiles",
    "SystemClock",
    "Transport",
    "UnavailableError",
    "UnfitError",
    "load_target",
    "local_replicas",
    "parse_endpoint",
    "run_server",
    "stop_cluster",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
