"""Local cluster: gateways and replicas as supervised child processes."""

from __future__ import annotations

from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.gateway_figures import combined_status
from kwiken.runtime.cluster.layout import Layout, PlayedNode, ReplicaPlace
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.cluster.state import ClusterState, StateFiles, stop_cluster

__all__ = [
    "Cluster",
    "ClusterSettings",
    "ClusterState",
    "Layout",
    "PlayedNode",
    "ReplicaPlace",
    "StateFiles",
    "combined_status",
    "stop_cluster",
]
