"""Tasks on nodes and what they use over time, as arrays."""

from __future__ import annotations

from kwiken.allocator.packing.tasks.packed_cluster import (
    MAX_PACKED_NODES as MAX_PACKED_NODES,
    MAX_TASKS as MAX_TASKS,
    PackedCluster as PackedCluster,
    plain_cluster as plain_cluster,
)
from kwiken.allocator.packing.tasks.usage import (
    MIN_SAMPLES as MIN_SAMPLES,
    UsageSeries as UsageSeries,
    Use as Use,
    filled_cores as filled_cores,
    gaps as gaps,
    lasting_variance as lasting_variance,
    nearest_rank as nearest_rank,
    sampled_percentile as sampled_percentile,
    use_of as use_of,
)
