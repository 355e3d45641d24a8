"""Requests that a sampler kept: how many each stands for, and whether one seems to have chosen slow ones."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.otel.fit.calls.call_matrices import Floats
from kwiken.otel.fit.own import sample_shares as own_shares
from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import Forest

MIN_REQUESTS: Final = 100  # fewer show no distribution
MIN_SLOW_SHARE: Final = 0.05  # of the requests, from the edge on
MIN_AT_EDGE: Final = 10  # requests in the tenth above the edge
MIN_STEP: Final = 5.0  # ratio of the requests in the tenth above the edge to those in the tenth below
MIN_EDGE: Final = 1.5  # over the median
MAX_REPEATED: Final = 200_000  # values, unless there are more requests
MAX_FIRST: Final = 1.03  # of the fastest slow request, over the edge
MIN_SPREAD: Final = 0.01  # of the requests at the edge: those of one fixed latency are no sampler's choice
_ROUND: Final = np.array([1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 8.0])


def trace_shares(forest: Forest) -> Floats:
    """(traces,): probability that the topmost span with one states, of each trace; NaN where none does."""
    stated = forest.spans["share"].astype(np.float64)
    by_trace = np.full(int(forest.trace.max(initial=-1)) + 1, np.nan)
    known = np.flatnonzero(~np.isnan(stated))
    order = known[np.argsort(-forest.depth[known], kind="stable")]
    by_trace[forest.trace[order]] = stated[order]  # of several the topmost is written last
    return by_trace


def sample_shares(forest: Forest, rows: Ints, by_trace: Floats) -> tuple[Floats, bool]:
    """Probability with which each request was kept, relative to the likeliest one of others' samplers.

    Equal probabilities thus weigh nothing: repeated requests would seem to prove more than they do. A request
    whose spans state none is taken for certain, as a tail sampler keeps slow requests. Where the request's
    own span states none, that of the topmost span of its trace counts that does.

    Args:
        forest: forest of all spans.
        rows: (n,) rows of the requests' spans.
        by_trace: `trace_shares` of the forest.

    Returns:
        (n,) probabilities, above 0, and whether any request states one; our own runtime's are absolute.
    """
    stated = forest.spans["share"][rows].astype(np.float64)
    shares = np.where(np.isnan(stated), by_trace[forest.trace[rows]], stated)
    own = forest.spans["own"][rows] >= 0
    said = bool(own.any() or not np.isnan(shares).all())
    shares = np.nan_to_num(shares, nan=1.0)
    return np.where(own, own_shares(forest, rows), shares / shares.max(initial=0.0)), said


def repeated(values: Floats, shares: Floats) -> Floats:
    """Values, each as often as the requests that it stands for, rounded so that the sums stay.

    Args:
        values: (n,) a value of each request.
        shares: (n,) probability with which it was kept.
    """
    if (shares == 1.0).all():
        return values
    total = np.cumsum(1.0 / shares)
    total *= min(1.0, max(MAX_REPEATED, len(values)) / total[-1])
    return np.repeat(values, np.diff(np.floor(total + 0.5), prepend=0.0).astype(np.int64))


def slow_were_chosen(latency_ms: Floats) -> int:
    """Number of slow requests, if a sampler plainly kept more of them than of the others; else 0.

    Samplers that keep what is slower than a limit set it to a round number. There the distribution has a
    step: far more requests lie just above than just below.

    Args:
        latency_ms: (n,) latencies of the requests, milliseconds.
    """
    if len(latency_ms) < MIN_REQUESTS:
        return 0
    median, slowest = float(np.median(latency_ms)), float(latency_ms.max())
    if not 0 < median < slowest:
        return 0
    powers = 10.0 ** np.arange(np.floor(np.log10(median)), np.ceil(np.log10(slowest)) + 1)
    for edge in np.unique(np.outer(powers, _ROUND)).tolist():
        slow: Bools = latency_ms >= edge
        if edge < MIN_EDGE * median or slow.mean() < MIN_SLOW_SHARE:
            continue
        above = latency_ms[slow & (latency_ms < 1.1 * edge)]
        below = int(((latency_ms >= 0.9 * edge) & ~slow).sum())
        if (
            len(above) >= MIN_AT_EDGE
            and len(above) >= MIN_STEP * below
            and above.min() <= MAX_FIRST * edge
            and above.std() >= MIN_SPREAD * edge
        ):
            return int(slow.sum())
    return 0
