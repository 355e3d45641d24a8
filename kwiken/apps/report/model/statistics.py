"""Percentiles of measured latencies, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kwiken.model.latency import ladder, percentile
from kwiken.model.plan.plan import Ladder

Floats = NDArray[np.float64]

PERCENTILES = {"p50_ms": 50.0, "p90_ms": 90.0, "p95_ms": 95.0, "p99_ms": 99.0, "p999_ms": 99.9}
NAMES = {key: f"p{at:g}" for key, at in PERCENTILES.items()}
MIN_BEYOND = 5  # requests beyond a percentile that make it reliable
POINTS = 90  # of a drawn quantile function


def ladder_of(latencies_ms: Sequence[float] | Floats) -> Ladder:
    """Percentiles of latencies; all 0 if nothing was measured."""
    values = np.asarray(latencies_ms, dtype=np.float64)
    return ladder(values) if values.size else Ladder()


def rungs(of: Ladder) -> dict[str, float]:
    """Percentiles of a ladder by name."""
    return {key: getattr(of, key) for key in PERCENTILES}


def tail_points(latencies_ms: Floats) -> list[tuple[float, float]]:
    """Quantile function on the log-tail axis, (nines, latency), from the median to what n can resolve.

    Nines are -log10(1 - q): 1 at p90, 2 at p99. The last point is the largest value, at 1 - 1/(n+1).
    """
    values = np.sort(np.asarray(latencies_ms, dtype=np.float64))
    if values.size < 2:  # noqa: PLR2004 - no line through one point
        return []
    last = math.log10(values.size + 1)
    nines = np.linspace(math.log10(2), max(last, math.log10(2.001)), POINTS)
    quantiles = np.clip(1 - 10**-nines, 0, 1)
    return list(zip(nines.tolist(), np.quantile(values, quantiles).tolist(), strict=True))


def chunk_draws(
    times_s: Floats, latencies_ms: Floats, *, chunk_s: float, draws: int, seed: int
) -> Iterator[Floats]:
    """Bootstrap draws of whole chunks of time (the block bootstrap, Kuensch 1989).

    Slow requests come in bursts, so single requests are not independent.

    Args:
        times_s: due times of the requests, (n,).
        latencies_ms: latencies of the requests, (n,).
        chunk_s: length of a chunk, in seconds.

    Yields:
        The latencies of one draw.
    """
    rng = np.random.default_rng(seed)
    _, chunk = np.unique(np.floor(times_s / chunk_s).astype(np.int64), return_inverse=True)
    order = np.argsort(chunk, kind="stable")
    pieces = np.split(latencies_ms[order], np.cumsum(np.bincount(chunk))[:-1])
    for _ in range(draws):
        yield np.concatenate([pieces[i] for i in rng.integers(0, len(pieces), len(pieces))])


def cut_with_interval(
    *,
    base: tuple[Floats, Floats],
    other: tuple[Floats, Floats],
    draws: int = 500,
    seed: int = 0,
) -> dict[str, float]:
    """Cut of the p99 of `base` by `other`, with a 90% bootstrap interval that draws whole seconds.

    Args:
        base: due times in seconds and latencies in milliseconds of one arm, both (n,).
        other: due times and latencies of the other arm, likewise.

    Returns:
        `cut`, `low`, `high`: fractions of `base`; NaN where an arm is empty.
    """
    if base[1].size == 0 or other[1].size == 0:
        return {"cut": math.nan, "low": math.nan, "high": math.nan}
    point = 1 - percentile(other[1], 99) / percentile(base[1], 99)
    pairs = zip(
        chunk_draws(*base, chunk_s=1.0, draws=draws, seed=seed),
        chunk_draws(*other, chunk_s=1.0, draws=draws, seed=seed + 1),
        strict=True,
    )
    cuts = [1 - percentile(b, 99) / percentile(a, 99) for a, b in pairs]
    low, high = np.quantile(cuts, (0.05, 0.95))
    return {"cut": float(point), "low": float(low), "high": float(high)}
