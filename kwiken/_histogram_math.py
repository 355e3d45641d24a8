"""Histograms of whole arrays, and of sums and maxima of independent latencies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kwiken._dag import Node
from kwiken._errors import InputError
from kwiken._histogram import (
    BUCKETS,
    GROWTH,
    HIGHEST_MS,
    INNER,
    LOWEST_MS,
    OFFSET,
    PER_LOG,
    VALUES,
    Histogram,
)
from kwiken._profile import Floats

# `value[i] + value[j]`, i >= j, lies between two values of the grid. How many buckets above i, and which
# share of it belongs to the upper of the two so that the mean is kept, depends on i - j alone.
_SHIFT = np.log1p(GROWTH ** -np.arange(INNER, dtype=float)) * PER_LOG
_WHOLE = np.floor(_SHIFT).astype(np.int64)
_UPPER = np.expm1((_SHIFT - _WHOLE) / PER_LOG) / (GROWTH - 1)
_NEAR = int(np.argmin(_WHOLE))  # from here on the sum stays in i's bucket or the next
_INNER_VALUES = np.asarray(VALUES[1:-1])


def add_array(histogram: Histogram, latencies_ms: Floats) -> None:
    """Add latencies of any shape; NaN stands for no call.

    Args:
        histogram: what was counted so far.
        latencies_ms: (n,) milliseconds, finite and not negative.

    Raises:
        InputError: for one that is negative.
    """
    flat = np.ravel(latencies_ms)
    flat = flat[~np.isnan(flat)]
    if len(flat) and flat.min() < 0:
        raise InputError(f"a latency must be a number of ms >= 0, not {flat.min()}")
    inner = np.clip(flat, LOWEST_MS, HIGHEST_MS)
    buckets = (np.log(inner) * PER_LOG + OFFSET).astype(np.int64)
    buckets[flat <= LOWEST_MS] = 0
    buckets[flat >= HIGHEST_MS] = BUCKETS - 1
    counts = np.bincount(buckets, minlength=BUCKETS).tolist()
    histogram.counts = [a + b for a, b in zip(histogram.counts, counts, strict=True)]


def convolve(first: Histogram, second: Histogram) -> Histogram:
    """Law of the sum of two independent latencies, as shares of 1.

    Each pair of buckets gives its mass to the two values around its sum, so that the mean is kept exactly
    (except beyond the end of the grid).

    Args:
        first: law of one latency.
        second: law of another, independent of it.

    Raises:
        InputError: when one is empty.
    """
    a, b = _shares(first), _shares(second)
    out = a * b[0]
    out[1:] += b[1:] * a[0]
    out[-1] += a[-1] * b[1:].sum() + b[-1] * a[1:-1].sum()
    inner = _near_sums(a[1:-1], b[1:-1]) + _far_sums(a[1:-1], b[1:-1]) + _far_sums(b[1:-1], a[1:-1])
    out[1:-1] += inner[:INNER]
    out[-1] += inner[INNER:].sum()
    return _of(out)


def _near_sums(a: Floats, b: Floats) -> Floats:
    """Sums of latencies less than `_NEAR` buckets apart, diagonal by diagonal."""
    out = np.zeros(INNER + int(_WHOLE[0]) + 2)
    for apart in range(_NEAR):
        mass = a[apart:] * b[: INNER - apart]
        if apart:
            mass += b[apart:] * a[: INNER - apart]
        upper = mass * _UPPER[apart]
        at = apart + int(_WHOLE[apart])
        out[at : at + len(mass)] += mass - upper
        out[at + 1 : at + 1 + len(mass)] += upper
    return out


def _far_sums(large: Floats, small: Floats) -> Floats:
    """Sums in which one latency is so small that it only moves a share of the mass up by one bucket."""
    out = np.zeros(INNER + int(_WHOLE[0]) + 2)
    mass, total = np.cumsum(small)[:-_NEAR], np.cumsum(small * _INNER_VALUES)[:-_NEAR]
    upper = large[_NEAR:] * total / (_INNER_VALUES[_NEAR:] * (GROWTH - 1))
    out[_NEAR:INNER] += large[_NEAR:] * mass - upper
    out[_NEAR + 1 : INNER + 1] += upper
    return out


def slowest_of(*histograms: Histogram) -> Histogram:
    """Law of the maximum of independent latencies, as shares of 1.

    Args:
        *histograms: the law of each.

    Raises:
        InputError: when one is empty, or there is none.
    """
    if not histograms:
        raise InputError("the slowest of nothing has no latency")
    below = np.prod([np.cumsum(_shares(histogram)) for histogram in histograms], axis=0)
    return _of(np.diff(below, prepend=0.0))


def law_of_requests(stages: Sequence[Node], laws: Mapping[str, Histogram]) -> Histogram:
    """Law of a DAG's end-to-end latency from its stages' laws alone.

    Latencies add along paths, and the latest parent counts where paths meet. Exact (to the grid) for
    independent stages where no two joining paths share a stage. Where they do, the law is an upper
    bound: sums along paths are associated, and their maximum is at most that of independent ones.

    Args:
        stages: parents before children.
        laws: by stage.

    Raises:
        InputError: when there are no stages, or a law is empty.
    """
    ends: dict[str, Histogram] = {}
    for stage in stages:
        law = laws[stage.name]
        parents = [ends[parent] for parent in stage.after]
        ends[stage.name] = convolve(slowest_of(*parents), law) if parents else law
    inner = {parent for stage in stages for parent in stage.after}
    return slowest_of(*(ends[stage.name] for stage in stages if stage.name not in inner))


def _shares(histogram: Histogram) -> Floats:
    counts = np.asarray(histogram.counts, dtype=float)
    total = math.fsum(histogram.counts)
    if not total:
        raise InputError("the histogram is empty")
    return counts / total


def _of(shares: Floats) -> Histogram:
    histogram = Histogram()
    histogram.counts = np.maximum(shares, 0.0).tolist()
    return histogram
