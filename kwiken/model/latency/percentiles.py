"""Latency percentiles from the median to p99.9, as used in plans and reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.plan import Ladder

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


def percentile(latency_ms: Floats, at: float) -> float:
    """One percentile of latencies, by the rule of `percentiles_of`, milliseconds.

    Args:
        latency_ms: (n,) latencies of calls or requests, milliseconds, one or more.
        at: percentile, from 0 to 100.
    """
    return float(np.percentile(latency_ms, at))


def percentiles_of(latency_ms: Floats, at: Sequence[float]) -> list[float]:
    """Percentiles of latencies, milliseconds, by the rule of all verbs that show percentiles of requests.

    The n latencies in rising order stand at the percentiles 0, 100/(n-1), ..., 100. Between two of them the
    percentile is interpolated linearly.

    Args:
        latency_ms: (n,) latencies of calls or requests, milliseconds, one or more.
        at: percentiles, each from 0 to 100.
    """
    return [float(each) for each in np.percentile(latency_ms, at)]


def ladder(latency_ms: Floats) -> Ladder:
    """Ladder of latency percentiles, milliseconds: p50, p90, p95, p99, p99.9.

    Args:
        latency_ms: (n,) latencies of requests, milliseconds.

    Raises:
        InputError: when there are none.
    """
    if not len(latency_ms):
        raise InputError("there are no requests")
    p50, p90, p95, p99, p999 = percentiles_of(latency_ms, PERCENTILES)
    return Ladder(p50_ms=p50, p90_ms=p90, p95_ms=p95, p99_ms=p99, p999_ms=p999)
