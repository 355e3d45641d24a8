"""Documents that packing reads: clusters of kubectl, placements, and tables of usage."""

from __future__ import annotations

from kwiken.allocator.packing.documents.kubernetes import (
    KubernetesCluster as KubernetesCluster,
    PodContainer as PodContainer,
    cluster_from_kubectl as cluster_from_kubectl,
)
from kwiken.allocator.packing.documents.placements import cluster_from_placement as cluster_from_placement
from kwiken.allocator.packing.documents.usage_files import (
    UsageTable as UsageTable,
    usage_from_csv as usage_from_csv,
    usage_from_prometheus as usage_from_prometheus,
)
