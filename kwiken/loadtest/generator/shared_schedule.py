"""Schedule whose rate can be changed while it runs, for one of several processes that share a load."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from kwiken.loadtest.inputs.arrivals import Arrivals
from kwiken.loadtest.inputs.queries import Queries

NO_REQUEST: Final = -1
"""Query of a plan's entry at which nothing is sent: the generator only waits until then."""
_SLICES_PER_S: Final = 10  # how often the level is asked for
_CHUNK: Final = 1024
_DECIMALS: Final = 9  # of unit-rate time, in requests


def steered(
    arrivals: Arrivals,
    queries: Queries,
    *,
    seed: int,
    level: Callable[[], float],
    index: int = 0,
    workers: int = 1,
) -> Iterator[tuple[float, int]]:
    """Intended starts, each with the index of a query, and an entry without a request every 0.1 s.

    Unit-rate arrivals are moved through the integral of rate times level, slice by slice, so Poisson arrivals
    stay Poisson and even gaps stay even under every change. Even gaps of several processes interleave.

    Args:
        seed: seed of arrivals and queries, 0 or more; each process draws its own.
        level: factor on the rates of `arrivals`, 0 or more; asked for at the start of each slice.
        index: number of this process among those that share the load, from 0.
        workers: number of processes that share the load when it starts, 1 or more.
    """
    children = np.random.SeedSequence((seed, index)).spawn(2)
    for_times, for_queries = (np.random.default_rng(child) for child in children)
    waiting = np.zeros(0)  # unit-rate arrivals, ascending, that are not due yet
    drawn = index / workers  # unit-rate time up to which arrivals were drawn
    passed = 0.0  # unit-rate time at the start of the slice
    number = 0
    while arrivals.duration_s is None or number / _SLICES_PER_S < arrivals.duration_s:
        start = number / _SLICES_PER_S
        yield start, NO_REQUEST
        end = (number + 1) / _SLICES_PER_S
        if arrivals.duration_s is not None:
            end = min(end, arrivals.duration_s)
        rate = arrivals.rates[number // _SLICES_PER_S % len(arrivals.rates)] * level()
        # Rounded, or errors of the sum would decide whether a request at the end of the schedule is sent.
        until = round(passed + rate * (end - start), _DECIMALS)
        while not len(waiting) or waiting[-1] < until:
            if arrivals.poisson:
                more = np.cumsum(for_times.exponential(size=_CHUNK)) + drawn
                drawn = float(more[-1])
            else:
                more = np.arange(_CHUNK, dtype=np.float64) + drawn
                drawn += _CHUNK
            waiting = np.concatenate((waiting, more))
        due = int(np.searchsorted(waiting, until, side="left"))
        if due:
            times = start + (waiting[:due] - passed) / rate
            yield from zip(times.tolist(), queries.draw(for_queries, due).tolist(), strict=True)
            waiting = waiting[due:]
        passed = until
        number += 1
