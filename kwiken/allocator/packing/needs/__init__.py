"""Needs of tasks: clusters by use, and the least of a resource that keeps a task's latency."""

from __future__ import annotations

from kwiken.allocator.packing.needs.sensitivity import (
    DIMENSIONS as DIMENSIONS,
    NodeArchitecture as NodeArchitecture,
    SensitivityCurve as SensitivityCurve,
    carried as carried,
    least_share as least_share,
    on_class as on_class,
    sensitivity_curve as sensitivity_curve,
    tolerated_injection as tolerated_injection,
)
from kwiken.allocator.packing.needs.usage_clusters import (
    cluster_usage as cluster_usage,
    elbow as elbow,
)
