"""Nodes and racks: machines of a cluster, their classes, slots and links, and their document."""

from __future__ import annotations

from kwiken.model.nodes.document import (
    RackCluster as RackCluster,
    cluster_from_toml as cluster_from_toml,
    nodes_from_toml as nodes_from_toml,
)
from kwiken.model.nodes.nodes import (
    Cluster as Cluster,
    Node as Node,
    NodeClass as NodeClass,
)
