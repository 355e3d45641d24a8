"""Simulated lines in front of the replicas of one service, which calls find as in the runtime."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from kwiken.base.arrays import Floats

CALLS = 40_000


def p99_of_lines(
    speeds: Sequence[float], rate_per_s: float, work: Callable[[np.random.Generator], Floats]
) -> float:
    """p99 of lines in front of replicas, milliseconds; a call goes where it is expected to be answered first.

    As in the runtime: latencies are learned from answers, and multiplied by the calls without an answer.

    Args:
        speeds: work that each replica does in a second.
        work: function that draws the work of `CALLS` calls, 1 on average.
    """
    rng = np.random.default_rng(7)
    works = work(rng)
    arrivals = np.cumsum(rng.exponential(1 / rate_per_s, CALLS))
    first = rng.integers(len(speeds), size=CALLS)
    free_at, learned = [0.0] * len(speeds), [1 / speed for speed in speeds]
    open_calls: list[deque[tuple[float, float]]] = [deque() for _ in speeds]
    found = np.empty(CALLS)
    calls = zip(arrivals.tolist(), works.tolist(), first.tolist(), strict=True)
    for call, (now, own, start) in enumerate(calls):
        for place, waiting in enumerate(open_calls):
            while waiting and waiting[0][0] <= now:
                learned[place] += 0.1 * (waiting.popleft()[1] - learned[place])
        order = (*range(start, len(speeds)), *range(start))
        best = min(order, key=lambda place: learned[place] * (1 + len(open_calls[place])))
        free_at[best] = max(free_at[best], now) + own / speeds[best]
        found[call] = free_at[best] - now
        open_calls[best].append((free_at[best], found[call]))
    return 1e3 * float(np.quantile(found[CALLS // 10 :], 0.99))


def gamma_work(variation: float, rng: np.random.Generator) -> Floats:
    """Work of calls with a gamma distribution; the same for all at a variation of 0."""
    return rng.gamma(1 / variation**2, variation**2, CALLS) if variation else np.ones(CALLS)
