"""Local cluster: gateways and replicas as supervised child processes."""

from __future__ import annotations

from kwiken.runtime.cluster.cluster import Cluster as Cluster
from kwiken.runtime.cluster.gateway_client import GatewayClient as GatewayClient
from kwiken.runtime.cluster.layout import (
    EmulatedNode as EmulatedNode,
    Layout as Layout,
    ReplicaPlace as ReplicaPlace,
)
from kwiken.runtime.cluster.settings import ClusterSettings as ClusterSettings
