"""Copies of the runtime's histograms for metrics."""

from __future__ import annotations

from kwiken.otel.metrics.model import Distribution, Exemplar
from kwiken.runtime.decisions.latency_histogram import FIRST_INDEX, SCALE, LatencyHistogram


def distribution(latencies: LatencyHistogram) -> Distribution:
    """Copy of a histogram of latencies, seconds."""
    return Distribution(
        SCALE,
        FIRST_INDEX,
        tuple(latencies.cells),
        latencies.count,
        latencies.total_s,
        tuple(Exemplar(*traced) for traced in latencies.traced.values()),
    )
