"""Pods of Kubernetes as replicas, and its nodes: what an upkeep acts on beyond one machine."""

from __future__ import annotations

from kwiken.runtime.upkeep.kubernetes.api import ApiAddress as ApiAddress, KubernetesApi as KubernetesApi
from kwiken.runtime.upkeep.kubernetes.nodes import (
    KubernetesNodes as KubernetesNodes,
    node_of as node_of,
    usable_nodes as usable_nodes,
)
from kwiken.runtime.upkeep.kubernetes.replicas import PodReplicas as PodReplicas
