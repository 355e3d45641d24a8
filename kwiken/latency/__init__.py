"""End-to-end latency: along the DAG, in percentiles, and in histograms."""

from __future__ import annotations

from kwiken.latency.dag import Node, critical_path, end_to_end, finish_times, parents_first, start_times
from kwiken.latency.percentiles import PERCENTILES, ladder

__all__ = [
    "PERCENTILES",
    "Node",
    "critical_path",
    "end_to_end",
    "finish_times",
    "ladder",
    "parents_first",
    "start_times",
]
