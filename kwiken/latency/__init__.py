"""End-to-end latency over a DAG of stages, and its percentiles."""

from __future__ import annotations

from kwiken.latency.dag import DagNode, critical_path, end_to_end, finish_times, parents_first, start_times
from kwiken.latency.percentiles import PERCENTILES, ladder

__all__ = [
    "PERCENTILES",
    "DagNode",
    "critical_path",
    "end_to_end",
    "finish_times",
    "ladder",
    "parents_first",
    "start_times",
]
