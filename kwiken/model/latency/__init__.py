"""End-to-end latency over a DAG of stages, and its percentiles."""

from __future__ import annotations

from kwiken.model.latency.dag import (
    DagNode as DagNode,
    critical_path as critical_path,
    end_to_end as end_to_end,
    finish_times as finish_times,
    parents_first as parents_first,
    start_times as start_times,
)
from kwiken.model.latency.percentiles import (
    PERCENTILES as PERCENTILES,
    ladder as ladder,
    percentile as percentile,
    percentiles_of as percentiles_of,
)
