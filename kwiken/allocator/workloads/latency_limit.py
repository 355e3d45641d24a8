"""Rate at which a replica keeps a p99 latency, from the rate that it serves when it is never idle."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

LOG_100: Final = math.log(100.0)
UNKNOWN_VARIATION: Final = 1.0  # coefficient of variation of the work of calls where nobody measured it
MIN_SHARE: Final = 1e-6  # of the capacity, for a replica that cannot keep the latency at any rate


def rate_within(capacity_per_s: Floats, servers: Floats, p99_ms: float, work_variation: float) -> Floats:
    """Largest rate at which a replica keeps a p99 latency (Quasar section 3.11).

    A server of rate mu, loaded at a rate lambda by Poisson arrivals, has a waiting time whose tail falls as
    `exp(-2 (1 - rho) mu t / (1 + v^2))`, where v is the coefficient of variation of its work. With v = 1 this
    gives `p99 = ln 100 / (mu - lambda)`, which is exact for exponential work. With v = 0 the constant work of
    the call itself is added. Between the two, the work of the call counts with the weight `1 - v^2`. The
    arrivals are divided over the servers at random, which is the worst case of a dispatcher.

    Args:
        capacity_per_s: (k, c) rate that the replica serves when it is never idle, calls per second, above 0.
        servers: (k, c) number of calls that the replica serves at the same time, 1 or more.
        p99_ms: largest p99 latency, milliseconds.
        work_variation: coefficient of variation of the work of calls, 0 or more.

    Returns:
        (k, c) calls per second; `MIN_SHARE` of the capacity where no rate keeps the
        latency.
    """
    squared = work_variation**2
    own_s = max(0.0, 1.0 - squared) * servers / capacity_per_s
    waiting_s = p99_ms / 1e3 - own_s
    lost = np.where(
        waiting_s > 0, servers * LOG_100 * (1.0 + squared) / 2.0 / np.maximum(waiting_s, 1e-12), np.inf
    )
    return np.asarray(np.maximum(MIN_SHARE * capacity_per_s, capacity_per_s - lost))
