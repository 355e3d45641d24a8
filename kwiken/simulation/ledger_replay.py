"""What a ledger over a sliding window refuses: bursts of late calls ask for more than a window may spend."""

from __future__ import annotations

import numpy as np

from kwiken.arrays import Bools, Floats

BURST_REQUESTS = 50.0  # the service account's bucket, in budgets of one request


def granted(spends: Floats, started_s: Floats, *, budget: float, window_s: float) -> Bools:
    """Which requests get their copies under a success-filled bucket and a sliding window.

    A request is granted all of its copies or none. It earns `budget` when it starts; the ledger of the
    runtime waits for its end, which is soon beside the window.

    Args:
        spends: (n,) what each request's copies cost, as a share of a request's cost.
        started_s: (n,) ascending.
        budget: share of the work that may be spent.
        window_s: length of the window.

    Returns:
        (n,) True where the copies are paid for; requests without copies are granted.
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
