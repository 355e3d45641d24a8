"""State of a running cluster: its document, its files in a folder, and the stop that reads them."""

from __future__ import annotations

from kwiken.runtime.cluster.state.documents import STATE_VERSION, ClusterState, NodeState, ProcessState
from kwiken.runtime.cluster.state.files import StateFiles
from kwiken.runtime.cluster.state.folder import StateFolder
from kwiken.runtime.cluster.state.stop import stop_cluster

__all__ = [
    "STATE_VERSION",
    "ClusterState",
    "NodeState",
    "ProcessState",
    "StateFiles",
    "StateFolder",
    "stop_cluster",
]
