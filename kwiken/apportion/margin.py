"""Safety margin of a budget: apportions less until later requests should stay within the budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kwiken.apportion.sum_of_variances import Allocation
from kwiken.arrays import Floats
from kwiken.profile import EmpiricalDistribution, Profile, StageProfile

T = TypeVar("T")
Rows = NDArray[np.int64]
NORMAL_QUANTILE_90 = 1.2816  # nine in ten mean spends stay below the mean plus so many standard errors
BATCHES = 50  # blocks of time whose mean spends give the standard error of the whole
SPLITS = ((0.5, 0.75), (0.75, 1.0))  # shares of the requests: learn up to the first, judge up to the second
MIN_MARGIN = 0.25  # share of the budget that is apportioned at least
MAX_ROUNDS = 4  # of tightening
MIN_REQUESTS_TO_SPLIT = 200  # with fewer the mean spend of a part is mostly noise


@dataclass(frozen=True)
class Spending:
    """Allocation of a tightened budget.

    Attributes:
        allocation: budget of each stage.
        margin: share of the budget that was apportioned, `MIN_MARGIN` to 1.
    """

    allocation: Allocation
    margin: float


def within_budget(
    profile: Profile,
    costs: Mapping[str, float],
    budget: float,
    apportion: Callable[[float], Allocation],
) -> Spending:
    """Apportion as much of a budget as later requests should stay within.

    Later spend differs for two reasons:
    1. Sampling error. Time-outs are quantiles of a sample. The error of the share of calls beyond them is
       estimated from the spend of blocks of time, which includes the correlation of requests close in time.
    2. Drift. Time-outs are learned on earlier requests of the profile and judged on later ones; any overshoot
       beyond chance counts.

    Args:
        profile: profile of the service.
        costs: by stage that may be reissued: cost of a copy of all its calls, in the unit of the budget.
        budget: the most that may be spent.
        apportion: function that makes an allocation of a budget.

    Returns:
        The allocation whose mean spend should fit the budget nine times in ten, or one of `MIN_MARGIN` of it.
    """
    return Spending(*tightened(budget, apportion, _History(profile, costs).likely_spend))


def tightened(
    budget: float, apportion: Callable[[float], T], likely: Callable[[T], float]
) -> tuple[T, float]:
    """Apportion less and less of a budget until later requests should stay within it.

    Args:
        budget: the most that may be spent.
        apportion: function that makes an allocation of a budget.
        likely: function from an allocation to the bound that nine in ten mean spends of later requests should
            stay below, in the unit of the budget.

    Returns:
        The allocation, and the share of the budget that was apportioned, at least `MIN_MARGIN`.
    """
    margin = 1.0
    allocation = apportion(budget)
    for _ in range(MAX_ROUNDS):
        spend = likely(allocation)
        if spend <= budget or margin <= MIN_MARGIN:
            break
        margin = max(MIN_MARGIN, margin * budget / spend)
        allocation = apportion(budget * margin)
    return allocation, margin


class _History:
    """Spend of allocations on the profile's requests in order of time."""

    def __init__(self, profile: Profile, costs: Mapping[str, float]) -> None:
        self._order = np.argsort(profile.started_s, kind="stable")
        self._stages = [stage for stage in profile.stages if stage.name in costs]
        self._costs = costs

    def likely_spend(self, allocation: Allocation) -> float:
        """Bound that nine in ten mean spends of later requests should stay below."""
        if not allocation.spent > 0:
            return 0.0
        return likely_mean(
            self._order, allocation.spent, lambda early, late: self._spend(allocation, early, late)
        )

    def _spend(self, allocation: Allocation, learned: Rows, judged: Rows) -> Floats:
        """(k,): spend of each judged request with time-outs learned on other requests."""
        spent = np.zeros(len(judged))
        for stage in self._stages:
            fraction = allocation.fractions[stage.name]
            if fraction > 0:
                coin = max(fraction, allocation.coins.get(stage.name, 1.0))
                spent += self._costs[stage.name] * _copies(stage, (fraction, coin), learned, judged)
        return spent


def _copies(stage: StageProfile, given: tuple[float, float], learned: Rows, judged: Rows) -> Floats:
    """(k,): expected copies of each judged request, in units of the stage's mean calls per request.

    Args:
        stage: profile of the stage.
        given: share of its calls to reissue, and coin of the policy.
        learned: (n,) indices of the requests that the time-out is learned on.
        judged: (k,) indices of the requests to judge.
    """
    fraction, coin = given
    distribution = EmpiricalDistribution.of(stage.calls_ms[learned])
    if not len(distribution):
        return np.full(len(judged), fraction)
    outs = distribution.time_outs(np.array([fraction / coin]))
    late = (stage.calls_ms[judged] > outs.after_ms[0]).sum(axis=1)
    return np.asarray(coin * outs.probability[0] * late / stage.calls_per_request)


def likely_mean(order: Rows, planned: float, spend: Callable[[Rows, Rows], Floats]) -> float:
    """Bound that nine in ten mean spends of later requests should stay below, in the unit of the budget.

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
