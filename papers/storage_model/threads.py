"""Threads of an application by function, intensity and fluctuation, on a trace with six planted types."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.storage.trace.block_trace import BlockTrace, trace_of

SECONDS: Final = 6 * 3600.0
BIN_S: Final = 300.0  # of the rates whose fluctuation is told
FLUCTUATING: Final = 0.5  # coefficient of variation above which a rate fluctuates
# Function, rate a second and swing of each planted thread: two of each published type.
PLANTED: Final = (
    *(("Data", 1.2, 3.0),) * 2,
    *(("Data", 1.0, 0.0),) * 2,
    *(("Data", 0.25, 3.0),) * 2,
    *(("Data", 0.2, 0.0),) * 2,
    *(("Log", 0.9, 0.0),) * 2,
    *(("Log", 0.2, 3.0),) * 2,
)
TYPES: Final = {
    ("Data", True, True): "Data#0",
    ("Data", True, False): "Data#1",
    ("Data", False, True): "Data#2",
    ("Data", False, False): "Data#3",
    ("Log", True, False): "Log#4",
    ("Log", False, True): "Log#5",
}


def planted_types(seed: int) -> dict[str, float]:
    """Share of planted threads that are found to be of their type."""
    rng = np.random.default_rng([seed, 21])
    times, owner = [], []
    for number, (_, rate, swing) in enumerate(PLANTED):
        count = rng.poisson(rate * SECONDS)
        even = np.sort(rng.random(count * 4)) * SECONDS
        # A fluctuating thread works in bursts of half an hour; the rest of the time it is nearly idle.
        busy = (even // 1800).astype(int) % 4 == number % 4
        keep = np.where(busy, 1.0, 0.02) if swing else np.full(len(even), 0.25)
        chosen = even[rng.random(len(even)) < keep]
        times.append(chosen)
        owner.append(np.full(len(chosen), number))
    t_s, thread = np.concatenate(times), np.concatenate(owner)
    logs = np.array([function == "Log" for function, _, _ in PLANTED])[thread]
    trace = trace_of(
        t_s,
        np.where(logs, 1, 0),
        rng.integers(0, 1 << 20, len(t_s)) * 8192,
        np.full(len(t_s), 8192),
        ~logs,
        thread,
        where="planted",
    )
    found = thread_types(trace)
    right = [
        found.get(number) == TYPES[function, rate > 0.5, swing > 0]  # noqa: PLR2004 - between the planted rates
        for number, (function, rate, swing) in enumerate(PLANTED)
    ]
    return {"types": 100 * float(np.mean(right)), "kinds": float(len(set(found.values())))}


def thread_types(trace: BlockTrace) -> dict[int, str]:
    """Type of each thread: intensity against the median of its function, and fluctuation of its rate."""
    rates, spread = _rates(trace)
    threads = np.unique(trace.thread)
    logs = np.array([trace.volume[trace.thread == each][0] == 1 for each in threads])
    found = {}
    for place, thread in enumerate(threads.tolist()):
        peers = rates[logs == logs[place]]
        kind = (
            "Log" if logs[place] else "Data",
            bool(rates[place] > np.median(peers)),
            bool(spread[place] > FLUCTUATING),
        )
        found[thread] = TYPES.get(kind, "other")
    return found


def _rates(trace: BlockTrace) -> tuple[Floats, Floats]:
    """Mean rate of each thread, and the coefficient of variation of its rate in bins of 5 minutes."""
    bins = int(SECONDS / BIN_S)
    place = np.unique(trace.thread, return_inverse=True)[1]
    at = np.minimum((trace.t_s / BIN_S).astype(np.int64), bins - 1)
    counts = np.zeros((int(place.max()) + 1, bins))
    np.add.at(counts, (place, at), 1)
    mean = counts.mean(axis=1)
    return mean / BIN_S, counts.std(axis=1) / np.maximum(mean, 1e-9)
