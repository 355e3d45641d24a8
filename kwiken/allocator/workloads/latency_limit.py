"""Capacity that has to stay idle so that calls keep a p99 latency, from the rate and the work of a call."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import gammaincinv

from kwiken.base.arrays import Floats

SLOWER: Final = 0.01  # share of the calls that may take longer
ROUNDING: Final = 1e-9  # by which sums of the same weights may differ with the number of rows
UNKNOWN_VARIATION: Final = 1.0  # coefficient of variation of the work of calls where nobody measured it
CONSTANT: Final = 1e-3  # variation below which work is taken as constant
# A call stays in the line of the replica that it was sent to, so that a long call holds up those behind it
# although other replicas become free. Simulated lines agree with work that is longer by this share of v^2.
STUCK: Final = 0.25
BODY, TAIL = 60, 140  # points at which the work of calls is taken: below and above the 95% quantile
STEPS: Final = 40  # halvings of a logarithm
MIN_SPARE, MAX_SPARE = 1e-6, 1e6  # calls within the latency, between which the answer is looked for


def spare_within(call_s: Floats, rate_per_s: float, p99_ms: float, work_variation: float) -> Floats:
    """Least capacity beyond a rate with which all replicas together keep a p99 latency.

    The runtime sends each call to the replica that is expected to answer first, so the replicas of a workload
    share one load and not each a part of it. The wait of a call is that of one queue with the capacity of all
    of them: it is above t with the probability `rho exp(-2 d t / (1 + v^2))`, where d is the spare capacity,
    rho the share of the capacity in use, and v the coefficient of variation of the work of calls. The time of
    the call itself has a gamma distribution with that variation, longer by `STUCK`. Without that, one replica
    and exponential work would give `p99 = ln 100 / d`, as in the source (Quasar section 3.11).

    Args:
        call_s: (k, c) mean time of a call on a replica that has nothing else to do, seconds, above 0.
        rate_per_s: calls per second, above 0.
        p99_ms: largest p99 latency, milliseconds.
        work_variation: coefficient of variation of the work of calls, 0 or more.

    Returns:
        (k, c) calls per second that the capacity must exceed the rate by where the slowest replica takes this
        time; infinite where no capacity is enough.
    """
    latency_s = p99_ms / 1e3
    points, weights = _work(work_variation)
    kinds, where = np.unique(call_s.ravel(), return_inverse=True)
    left_s = latency_s - kinds[:, None] * points  # for waiting
    decay = 2.0 / (1.0 + work_variation**2) * np.maximum(left_s, 0.0)
    low = np.full(len(kinds), math.log(MIN_SPARE / latency_s))
    high = np.full(len(kinds), math.log(MAX_SPARE / latency_s))

    def slower(spare: Floats) -> Floats:
        used = rate_per_s / (rate_per_s + spare)
        waits = used[:, None] * np.exp(-spare[:, None] * decay)
        return np.asarray(np.where(left_s > 0, waits, 1.0) @ weights)

    never = slower(np.exp(high)) > SLOWER * (1 + ROUNDING)
    for _ in range(STEPS):
        middle = (low + high) / 2
        enough = slower(np.exp(middle)) <= SLOWER * (1 + ROUNDING)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(np.where(never, np.inf, np.exp(high))[where].reshape(call_s.shape))


def _work(variation: float) -> tuple[Floats, Floats]:
    """Work of calls at some quantiles, as a factor of its mean, and their weights; dense in the tail."""
    body, tail = (np.arange(BODY) + 0.5) / BODY * 0.95, 0.95 + (np.arange(TAIL) + 0.5) / TAIL * 0.05
    weights = np.concatenate((np.full(BODY, 0.95 / BODY), np.full(TAIL, 0.05 / TAIL)))
    stuck = 1.0 + STUCK * min(variation, 1.0) ** 2
    if variation < CONSTANT:
        return np.ones(len(weights)), weights
    shape = 1.0 / variation**2
    return stuck * gammaincinv(shape, np.concatenate((body, tail))) / shape, weights
