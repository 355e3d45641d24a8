"""Margin of a utility or catch-up budget: plans use less than the budget, so that later requests keep it.

Reissues have no margin: the ledger keeps their budget, and a plan uses the whole of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats

T = TypeVar("T")
Rows = NDArray[np.int64]
NORMAL_QUANTILE_90 = (
    1.2816  # a mean stays below its expectation plus this many standard errors in nine of ten cases
)
BATCHES = 50  # blocks of time whose mean spends give the standard error of the whole
SPLITS = ((0.5, 0.75), (0.75, 1.0))  # shares of the requests: learn up to the first, judge up to the second
MIN_APPORTIONED_SHARE = 0.25  # of the budget: the margin takes at most the rest
MAX_ROUNDS = 4  # of tightening
MIN_REQUESTS_TO_SPLIT = 200  # with fewer, the mean spend of a part is mostly noise


def tightened(
    budget: float, apportion: Callable[[float], T], likely: Callable[[T], float]
) -> tuple[T, float]:
    """Apportion less and less of a budget until later requests are expected to stay within it.

    Args:
        budget: the most that may be spent.
        apportion: function that makes an allocation of a budget.
        likely: function from an allocation to an upper bound (90%) of the mean spend of later requests, in
            the unit of the budget.

    Returns:
        The allocation, and the share of the budget that was apportioned, at least
        `MIN_APPORTIONED_SHARE`.
    """
    share = 1.0
    allocation = apportion(budget)
    for _ in range(MAX_ROUNDS):
        spend = likely(allocation)
        if spend <= budget or share <= MIN_APPORTIONED_SHARE:
            break
        share = max(MIN_APPORTIONED_SHARE, share * budget / spend)
        allocation = apportion(budget * share)
    return allocation, share


def likely_mean(order: Rows, planned: float, spend: Callable[[Rows, Rows], Floats]) -> float:
    """Upper bound (90%) of the mean spend of later requests, in the unit of the budget.

    Args:
        order: (n,) indices of requests in order of time.
        planned: mean spend planned for a request, in the unit of the budget, above 0.
        spend: function from (k,) requests to learn on and (m,) requests to judge to the (m,) spends of the
            latter, in the unit of the budget.
    """
    n = len(order)
    noise = error_of_mean(spend(order, order))
    drift = 1.0
    for learned, judged in SPLITS if n >= MIN_REQUESTS_TO_SPLIT else ():
        early, late = order[: int(learned * n)], order[int(learned * n) : int(judged * n)]
        chance = NORMAL_QUANTILE_90 * noise * math.sqrt(n / len(early) + n / len(late))
        drift = max(drift, (float(spend(early, late).mean()) - chance) / planned)
    return planned * drift + NORMAL_QUANTILE_90 * noise


def error_of_mean(spent: Floats) -> float:
    """Standard error of the mean of values in order of time, by the method of batch means."""
    batches = min(BATCHES, len(spent))
    if batches < 2:  # noqa: PLR2004 - one batch has no spread
        return 0.0
    size = len(spent) // batches
    means = spent[: size * batches].reshape(batches, size).mean(axis=1)
    return float(means.std(ddof=1)) / math.sqrt(batches)
