"""Choice among allocations of a reissue budget by the p99 that each is expected to leave.

A budget is the most that may be spent. So what a smaller budget would buy is a candidate too, and the
expected p99 never rises along the `LADDER` of budgets. All candidates are forecast on the same requests,
copies and coins as the expectation of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from kwiken.model.latency import percentile
from kwiken.model.profile.profile import Profile
from kwiken.tail.apportion.apportioner import SPREADS, Apportioner, insured
from kwiken.tail.apportion.sum_of_variances import (
    Allocation,
    allocation_of,
    choices_of,
    with_coins,
)
from kwiken.tail.curves.curve import Curve
from kwiken.tail.simulation.common_random_numbers import PairedSimulation
from kwiken.tail.simulation.expectation import expected_rows

LADDER: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5)  # smaller budgets that are tried
MIN_GAIN: Final = 0.01  # of all stages' gains, from which a stage counts as one that has stalled


def least_p99(
    profile: Profile,
    curves: Mapping[str, Curve],
    prices: Mapping[str, float],
    apportion: Apportioner,
    budget: float,
    *,
    seed: int,
) -> Allocation:
    """Best allocation of a budget, or of a smaller one of the `LADDER`, by the forecast p99.

    Args:
        curves: curve of each stage that may be reissued, by its name.
        prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
        apportion: search for an allocation; one that ignores the objective is taken as it is.
        budget: the most that may be spent, as a share of all work.
        seed: seed of the draws behind the expectation.
    """
    if not curves or not budget > 0 or not apportion.searches:
        return apportion(budget)
    paired = PairedSimulation(profile, curves, expected_rows(profile), seed=seed)
    best: tuple[float, Allocation] | None = None
    for each in (budget, *(smaller for smaller in reversed(LADDER) if smaller < budget)):
        for candidate in _candidates(curves, prices, apportion, each):
            allocation = insured(candidate, curves, prices, apportion.insurance * (budget - each))
            p99_ms = percentile(paired.set_choices(choices_of(curves, allocation)), 99)
            if best is None or p99_ms < best[0]:
                best = p99_ms, allocation
    assert best is not None
    return best[1]


def _candidates(
    curves: Mapping[str, Curve], prices: Mapping[str, float], apportion: Apportioner, budget: float
) -> Iterator[Allocation]:
    """Allocations of one budget: the search, an even spread, a uniform one, and the best stage alone."""
    yield apportion(budget)
    if apportion.by_variance:  # the source's objective is a comparison: only its own search
        return
    premium = apportion.insurance * budget
    alone = {name: min(1.0, (budget - premium) / price) for name, price in prices.items()}
    gain = {name: curve.hull_at(0.0) - curve.hull_at(alone[name]) for name, curve in curves.items()}
    stalled = [name for name in curves if gain[name] >= MIN_GAIN * sum(gain.values())]
    for spread in ("equal", "uniform"):
        found = SPREADS[spread](curves, prices, budget)
        # A coin was chosen by the stalls of the past: stages without any get a copy for every late call.
        coins = {name: curves[name].coin_at(found.fractions[name]) for name in stalled}
        yield replace(found, coins=dict.fromkeys(curves, 1.0) | coins)
    name = max(alone, key=lambda each: gain[each])
    yield insured(
        with_coins(allocation_of(curves, prices, {name: alone[name]}), curves), curves, prices, premium
    )
