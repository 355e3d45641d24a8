"""Keeping a budget on requests that were not there when the time-outs were learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kwiken.apportion.sum_of_variances import Allocation
from kwiken.arrays import Floats
from kwiken.profile import Pool, Profile, StageProfile

T = TypeVar("T")
Rows = NDArray[np.int64]
SURE = 1.2816  # standard normal quantile: nine in ten spends of later requests stay below
BATCHES = 50  # stretches of time whose mean spends tell how far chance moves the whole
SPLITS = ((0.5, 0.75), (0.75, 1.0))  # learn up to the first, judge from there to the second
LEAST_MARGIN = 0.25
ROUNDS = 4
FEWEST_SPLIT = 200  # requests; of fewer, a part's spend is all noise


@dataclass(frozen=True)
class Spending:
    """An allocation within a tightened budget.

    Attributes:
        allocation: who got how much.
        margin: share of the budget that was apportioned.
    """

    allocation: Allocation
    margin: float


def within_budget(
    profile: Profile,
    costs: Mapping[str, float],
    budget: float,
    apportion: Callable[[float], Allocation],
) -> Spending:
    """Apportion so much of the budget that later requests should stay within it.

    Two things make later spend differ. Time-outs are quantiles of a sample, so the share of calls
    beyond them has a sampling error; it is taken from the spend of stretches of time, which holds what
    requests and neighbours in time have in common. And services drift: time-outs are learned on earlier
    requests of the profile and judged on the ones after; what they overshoot beyond chance counts.

    Args:
        profile: what was learned.
        costs: by stage that may be reissued: cost of a copy of all its calls.
        budget: the most that may be spent.
        apportion: makes an allocation of a budget.

    Returns:
        The allocation at which nine in ten spends should fit the budget, or at `LEAST_MARGIN` of it.
    """
    return Spending(*tightened(budget, apportion, _History(profile, costs).likely_spend))


def tightened(
    budget: float, apportion: Callable[[float], T], likely: Callable[[T], float]
) -> tuple[T, float]:
    """Apportion less and less of a budget until later requests should keep it.

    Args:
        budget: the most that may be spent.
        apportion: makes an allocation of a budget.
        likely: what nine in ten later requests' mean spends should stay below, of an allocation.

    Returns:
        The allocation and the share of the budget that was apportioned, at least `LEAST_MARGIN`.
    """
    margin = 1.0
    allocation = apportion(budget)
    for _ in range(ROUNDS):
        spend = likely(allocation)
        if spend <= budget or margin <= LEAST_MARGIN:
            break
        margin = max(LEAST_MARGIN, margin * budget / spend)
        allocation = apportion(budget * margin)
    return allocation, margin


class _History:
    """The profile's requests in the order of time, and what allocations would have spent on them."""

    def __init__(self, profile: Profile, costs: Mapping[str, float]) -> None:
        self._order = np.argsort(profile.started_s, kind="stable")
        self._stages = [stage for stage in profile.stages if stage.name in costs]
        self._costs = costs

    def likely_spend(self, allocation: Allocation) -> float:
        """What nine in ten later requests' mean spends should stay below."""
        if not allocation.spent > 0:
            return 0.0
        return likely_mean(
            self._order, allocation.spent, lambda early, late: self._spend(allocation, early, late)
        )

    def _spend(self, allocation: Allocation, learned: Rows, judged: Rows) -> Floats:
        """(k,): spend of each judged request with time-outs learned on others."""
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
        stage: what was learned of it.
        given: share of its calls to reissue, and coin of the policy.
        learned: requests that the age is learned on.
        judged: requests that it is judged on.
    """
    fraction, coin = given
    pool = Pool.of(stage.calls_ms[learned])
    if not len(pool):
        return np.full(len(judged), fraction)
    outs = pool.time_outs(np.array([fraction / coin]))
    late = (stage.calls_ms[judged] > outs.after_ms[0]).sum(axis=1)
    return np.asarray(coin * outs.probability[0] * late / stage.calls_per_request)


def likely_mean(order: Rows, planned: float, spend: Callable[[Rows, Rows], Floats]) -> float:
    """What nine in ten later requests' mean spends should stay below.

    Args:
        order: (n,) requests in the order of time.
        planned: mean spend that was planned, above 0.
        spend: of requests to learn on and requests to judge, what each of the latter spends.
    """
    n = len(order)
    noise = error_of_mean(spend(order, order))
    drift = 1.0
    for learned, judged in SPLITS if n >= FEWEST_SPLIT else ():
        early, late = order[: int(learned * n)], order[int(learned * n) : int(judged * n)]
        chance = SURE * noise * math.sqrt(n / len(early) + n / len(late))
        drift = max(drift, (float(spend(early, late).mean()) - chance) / planned)
    return planned * drift + SURE * noise


def error_of_mean(spent: Floats) -> float:
    """Standard error of the mean of values in the order of time, from the means of batches."""
    batches = min(BATCHES, len(spent))
    if batches < 2:  # noqa: PLR2004 - one batch tells no spread
        return 0.0
    size = len(spent) // batches
    means = spent[: size * batches].reshape(batches, size).mean(axis=1)
    return float(means.std(ddof=1)) / math.sqrt(batches)
