"""A simulated stage under a processor limit: latency by limit, the score that follows, and sampled use.

The stage is a queue of one server whose speed is the limit. It stands for a real stage under a quota, which
`kwiken probe stage` measures; the source measured its own services on idle hosts.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from kwiken.allocator.packing.tasks.usage import PERCENTILE, nearest_rank
from kwiken.base.arrays import Floats
from papers.colocation.sensitivity import TOLERANCE, least_share
from papers.figures.tables import PlotLine, PlotOf, StatedRow, level, pooled, ratio

REQUESTS: Final = 200_000
LIMITS: Final = np.round(np.arange(0.40, 1.001, 0.05), 2)
LOADS: Final = {
    "KeyVal2-like": (0.33, 0.6),
    "Log1-like": (0.25, 1.0),
}  # load at no limit, deviation of ln(work)
SHOWN: Final = {"Figure 3": "KeyVal2-like", "Figure 4": "Log1-like"}
PERCENTILES: Final = (99.9, 99.0, 90.0, 50.0)  # of use, taken as the limit, Figures 3 and 4
SECONDS: Final = 7 * 86_400
MINUTE: Final = 60
SIMULATED: Final = "simulated stage, fixed before the first run; the source measured production services"
# Points of Figure 6: injected share of the memory bandwidth, and rise of p99.
NN1: Final = ((0.0, 0.0), (0.065, 0.0), (0.21, 0.07))
BETWEEN: Final = (
    "interpolated between the published points, 0% at 6.5% injected and 7% at 21%; the source took the point "
    "of 7%, against its own rule of 5%"
)


def _latencies(work: Floats, gaps_s: Floats, limit: float) -> Floats:
    """Latency of each request in a queue of one server with a speed (Lindley's recursion)."""
    service = work / limit
    steps = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps_s[1:])])
    return np.asarray(steps - np.minimum.accumulate(steps) + service, dtype=np.float64)


def limited(seed: int) -> dict[str, Any]:
    """p99 by limit for two stages, their use, and the percentile of a series at two sampling intervals."""
    rng = np.random.default_rng([seed, 42])
    found: dict[str, Any] = {}
    for name, (load, deviation) in LOADS.items():
        work = rng.lognormal(-(deviation**2) / 2, deviation, REQUESTS)
        gaps_s = rng.exponential(1.0 / load, REQUESTS)
        latencies = [_latencies(work, gaps_s, float(limit)) for limit in LIMITS]
        p99, p50 = (np.array([np.percentile(one, at) for one in latencies]) for at in (99, 50))
        arrivals = np.cumsum(gaps_s)
        ends = np.cumsum(work)
        use = np.interp(np.arange(0, arrivals[-1], MINUTE), arrivals, ends)
        share = np.diff(use) / MINUTE
        by_percentile = {
            percentile: float(nearest_rank(share[None, :], percentile)[0]) for percentile in PERCENTILES
        }
        found[name] = {
            "p99": p99.tolist(),
            "impact": np.maximum(p99 / p99[-1], p50 / p50[-1]) - 1.0,
            "degraded": [
                int(a > 1.05 * p99[-1]) + int(b > 1.05 * p50[-1]) for a, b in zip(p99, p50, strict=True)
            ],
            "use": by_percentile,
        }
    slow = np.interp(
        np.arange(SECONDS), np.arange(0, SECONDS + 3600, 3600), rng.normal(0.4, 0.08, SECONDS // 3600 + 1)
    )
    seconds = np.clip(slow + rng.normal(0, 0.02, SECONDS), 0, None)
    found["samples"] = sampled_percentile(seconds, MINUTE) / sampled_percentile(seconds, 1) - 1.0
    return found


def limit_rows() -> Iterator[StatedRow]:
    """Rows of Figures 3 to 6 and of Section VI-A."""
    for figure, name in SHOWN.items():
        for percentile in PERCENTILES:
            source = "about 55 of the request" if (name, percentile) == ("KeyVal2-like", 99.0) else ""
            metric = f"{name}, limit at p{percentile:g} of use, %"
            yield level(figure, metric, (name, "use", percentile), source, scale=100)
        metric = f"{name}, p99 at a limit of 55%, times that at 100%"
        yield level(figure, metric, ratio((name, "p99", 3), (name, "p99", -1)), "rises as the limit falls")
    yield level(
        "Figure 5",
        "score of processors, KeyVal2-like",
        lambda one: least_share(LIMITS, one["KeyVal2-like"]["impact"]),
        "0.93 (Rank2)",
    )
    for at in (3, 9, 12):
        metric = f"degraded indicators of 2 at {LIMITS[at]:.0%} of the processors"
        yield level("Figure 5", metric, ("KeyVal2-like", "degraded", at), "not linear")
    for words, tolerance, note in (
        ("5% rule", TOLERANCE, BETWEEN),
        ("the source's own choice", 0.07, "with its 7% as the tolerance"),
    ):
        metric = f"score of memory bandwidth, NN1, {words}"
        yield pooled("Figure 6", metric, partial(_score_of_nn1, tolerance), "0.79", note)
    note = "synthetic series: an hourly level and noise of 2% of a core"
    metric = "p99 of use at 60 s samples beside 1 s, %"
    yield level("Section VI-A", metric, "samples", "within 1", note, scale=100)


def _score_of_nn1(tolerance: float, _: list[Any]) -> float:
    injected, impacts = (np.array(column) for column in zip(*NN1, strict=True))
    return round(tolerated_injection(injected, impacts, tolerance), 3)


def limit_plots() -> Iterator[PlotOf]:
    """p99 by limit, for both stages."""
    for figure, name in SHOWN.items():
        lines = [PlotLine(name, LIMITS.tolist(), [(name, "p99", at) for at in range(len(LIMITS))])]
        title = f"p99 by limit, {name}"
        yield PlotOf(figure, title, "limit, share of the request", "p99", lines, log_y=True)


def tolerated_injection(injected: Floats, impacts: Floats, tolerance: float = TOLERANCE) -> float:
    """Score of a bandwidth from injected load: 1 less the largest injected share that is tolerated.

    Args:
        injected: (n,) injected shares of the bandwidth, rising, from 0.
        impacts: (n,) relative change of the worst indicator at each.
        tolerance: largest change that counts as kept, above 0.
    """
    return least_share(1.0 - injected[::-1], impacts[::-1], tolerance)


def sampled_percentile(series: Floats, every: int, percentile: float = PERCENTILE) -> float:
    """Percentile of means over consecutive samples, such as minutes of a series of seconds.

    Args:
        series: (s,) samples at equal distances.
        every: number of samples in each mean, 1 or more.
    """
    whole = len(series) // every * every
    return float(nearest_rank(series[:whole].reshape(1, -1, every).mean(axis=2), percentile)[0])
