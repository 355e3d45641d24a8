"""Range of the p99 that a run of some hundred requests under a plan will show.

An expectation is for requests like those recorded, as many as were replayed. A run shows a sample of them, at
another time. So to the bounds of the expectation (requests recorded, copies, correction) two errors are
added, as independent errors of the logarithm: that of a p99 of so few requests, whose slow ones come in
bursts, and the drift of p99 from one part of the recording to the next beyond that error.

A correction was measured under another plan, in other minutes. How much of it holds for this plan is not
known: any share from none to all is as likely. That rule followed on first results: without it, when all of a
correction was taken to hold, 83% of 36 kept arms and 5 of 9 arms of three demos lay in their ranges.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.plan.plan import Expected
from kwiken.tail.simulation.expectation import BLOCKS, INTERVAL_LEVEL, BlockBootstrap, interval

DRAWS: Final = 200
PARTS: Final = 4  # of the recording, between which drift is measured
P99: Final = 99.0
RUN_REQUESTS: Final = 600  # of a run that a plan states the range of
MAX_DRAWN: Final = 5000  # requests of a drawn run; the variance of longer ones follows from theirs
Z: Final = NormalDist().inv_cdf((1 + INTERVAL_LEVEL) / 2)  # reach of a normal interval, in deviations


def run_range(
    after_ms: Floats, expected: Expected, requests: int, *, recorded: int, seed: int
) -> tuple[float, float] | None:
    """Range that holds the p99 of a run under a plan with a probability of `INTERVAL_LEVEL`, milliseconds.

    Args:
        after_ms: (n,) simulated latencies under the plan, milliseconds, in order of time: of each recorded
            request equally many, one after another.
        expected: expectation of the plan, corrected or not.
        requests: number of requests of the run, 1 or more.
        recorded: number of requests recorded, 1 or more.

    Returns:
        Its ends; None where neither bounds nor a tried plan tell what copies do.
    """
    bounds = expected.bounds.after.get("p99_ms")
    center_ms = expected.after.p99_ms
    if not recorded or center_ms <= 0 or (bounds is None and expected.correction is None):
        return None
    if bounds is None:
        bounds = _scaled(after_ms, center_ms, expected, seed=seed)
    each = after_ms.reshape(recorded, -1)
    requests_drawn = min(requests, MAX_DRAWN)
    drawn = _drawn_p99s(each, requests_drawn, seed=seed)
    middle_ms = float(np.percentile(after_ms, P99))
    fewer = float(np.sqrt(requests_drawn / requests))
    low, high = (
        np.hypot(np.log(center_ms / max(bound, 1e-9)), fewer * np.log(middle_ms / max(end, 1e-9)))
        for bound, end in zip(bounds, interval(drawn), strict=True)
    )
    tried = 0.0 if expected.correction is None else float(np.log(expected.correction.factors["p99_ms"]))
    carried = (INTERVAL_LEVEL / 2) * abs(tried)  # reach of a uniform share of the correction around its half
    spread = np.hypot(Z * _drift(each, seed=seed), carried)
    middle = float(np.log(center_ms)) - tried / 2
    return float(np.exp(middle - np.hypot(low, spread))), float(np.exp(middle + np.hypot(high, spread)))


def _scaled(after_ms: Floats, center_ms: float, expected: Expected, *, seed: int) -> tuple[float, float]:
    """Bounds of the p99 by the requests drawn and by the correction, milliseconds."""
    assert expected.correction is not None  # the caller has looked
    factor = expected.correction.factors["p99_ms"]
    column = BlockBootstrap(len(after_ms), seed=seed).percentiles(after_ms)[:, 3]
    own = np.log(np.array(interval(column)) / np.percentile(after_ms, P99))
    tried = np.log(np.array(expected.correction.bounds["p99_ms"]) / factor)
    low, high = np.exp(np.hypot(own, tried)).tolist()
    return center_ms / low, center_ms * high


def _drawn_p99s(each_ms: Floats, requests: int, *, seed: int) -> Floats:
    """(`DRAWS`,): p99 of runs of so many requests, milliseconds: whole blocks of time, one replay of each.

    Args:
        each_ms: (recorded, replays) latencies in order of time, milliseconds.
    """
    recorded, replays = each_ms.shape
    rng = np.random.default_rng([seed, requests])
    length = max(1, recorded // min(BLOCKS, recorded))
    starts = rng.integers(0, recorded - length + 1, (DRAWS, -(-requests // length)))
    rows = (starts[:, :, None] + np.arange(length)).reshape(DRAWS, -1)[:, :requests]
    runs = each_ms[rows, rng.integers(0, replays, rows.shape)]
    return np.asarray(np.percentile(runs, P99, axis=1))


def _drift(each_ms: Floats, *, seed: int) -> float:
    """Deviation of the logarithm of p99 between parts of the recording, beyond that of so few requests."""
    if len(each_ms) < PARTS:
        return 0.0
    parts = np.array_split(each_ms, PARTS)
    logs = np.log([max(float(np.percentile(part, P99)), 1e-9) for part in parts])
    drawn = min(len(parts[0]), MAX_DRAWN)
    chance = np.log(np.maximum(_drawn_p99s(each_ms, drawn, seed=seed + 1), 1e-9)).var()
    return float(np.sqrt(max(0.0, logs.var(ddof=1) - chance * drawn / len(parts[0]))))
