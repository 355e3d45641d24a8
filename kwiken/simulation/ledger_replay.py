"""Replay of the budget ledger: which requests it refuses copies when a burst exceeds its window's budget."""

from __future__ import annotations

import numpy as np

from kwiken.arrays import Bools, Floats

BURST_REQUESTS = 50.0  # capacity of the service account's bucket, in budgets of one request


def granted(spends: Floats, started_s: Floats, *, budget: float, window_s: float) -> Bools:
    """Requests that get their copies under a success-filled token bucket and a sliding window.

    A request is granted all of its copies or none. It earns `budget` when it starts. The runtime's ledger
    credits it when it ends, which is a small difference compared with the window.

    Args:
        spends: (n,) cost of each request's copies, as a share of an average request's cost.
        started_s: (n,) start times, seconds, ascending.
        budget: share of all work that may be spent, 0 to 1.
        window_s: length of the window, seconds, above 0.

    Returns:
        (n,) True where the copies are granted; a request without copies is granted.
    """
    times, wanted = started_s.tolist(), spends.tolist()
    paid = [0.0] * len(wanted)
    full = level = budget * BURST_REQUESTS
    spent, first = 0.0, 0
    for i, cost in enumerate(wanted):
        while times[first] <= times[i] - window_s:
            spent -= paid[first]
            first += 1
        level = min(full, level + budget)
        if 0 < cost <= level and spent + cost <= budget * (i - first + 1):
            paid[i] = cost
            spent += cost
            level -= cost
    return (np.asarray(paid) > 0) | (spends <= 0)
