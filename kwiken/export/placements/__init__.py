"""Placements as settings of Compose and Kubernetes."""

from __future__ import annotations

from kwiken.export.placements.groups import (
    MAX_LABEL as MAX_LABEL,
    ReplicaGroup as ReplicaGroup,
    affinity_of as affinity_of,
    check_host_names as check_host_names,
    mebibytes as mebibytes,
    name_in_kubernetes as name_in_kubernetes,
    replica_groups as replica_groups,
    spread_of as spread_of,
)
from kwiken.export.placements.manifests import MANIFESTS as MANIFESTS
from kwiken.export.placements.repacked import kubernetes_commands as kubernetes_commands
