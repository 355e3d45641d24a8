"""Local cluster: gateways and replicas as supervised child processes."""

from __future__ import annotations

from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.gateway_figures import combined_status
from kwiken.runtime.cluster.layout import Layout, PlayedNode, ReplicaPlace
from kwiken.runtime.cluster.settings import ClusterSettings

__all__ = [
    "Cluster",
    "ClusterSettings",
    "Layout",
    "PlayedNode",
    "ReplicaPlace",
    "combined_status",
]
