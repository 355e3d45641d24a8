"""Keeping a budget on requests that were not there when the time-outs were learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken._curve import Curve
from kwiken._plan import Costs
from kwiken._pool import Pool
from kwiken._profile import Floats, Profile, StageProfile
from kwiken._sumvar import Allocation, HulledCurve

Rows = NDArray[np.int64]
SURE = 1.2816  # standard normal quantile: spend of later requests stays below in nine of ten cases
SPLITS = ((0.5, 0.75), (0.75, 1.0))  # learn up to the first, judge from there to the second
LEAST_MARGIN = 0.25
ROUNDS = 3
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
    curves: Mapping[str, Curve],
    shares: Costs,
    budget: float,
    spread: Callable[[Mapping[str, HulledCurve], Mapping[str, float], float], Allocation],
) -> Spending:
    """Apportion so much of the budget that later requests should stay within it.

    Two things make later spend differ. Time-outs are quantiles of a sample, so the share of calls beyond them
    has a sampling error. And services drift: so time-outs are learned on earlier requests of the profile
    and judged on the ones after. The budget is cut until nine in ten such spends fit, and not
    below `LEAST_MARGIN` of it.

    Returns:
        The allocation and the share of the budget that was apportioned.
    """
    costs = {name: shares.stages[name] for name in curves}
    order = np.argsort(profile.started_s, kind="stable")
    margin = 1.0
    allocation = spread(curves, costs, budget)
    for _ in range(ROUNDS):
        overshoot = _overshoot(profile, costs, allocation, order)
        wanted = allocation.spent * overshoot + SURE * _sampling_error(curves, costs, allocation)
        if wanted <= budget or margin <= LEAST_MARGIN:
            break
        margin = max(LEAST_MARGIN, margin * budget / wanted)
        allocation = spread(curves, costs, budget * margin)
    return Spending(allocation, margin)


def _sampling_error(curves: Mapping[str, Curve], costs: Mapping[str, float], allocation: Allocation) -> float:
    """Standard deviation of the spend, from the sampling of the time-outs alone."""
    return math.sqrt(
        math.fsum(
            costs[name] ** 2 * r * (1 - r) / len(curves[name].pool)
            for name, r in allocation.fractions.items()
        )
    )


def _overshoot(profile: Profile, costs: Mapping[str, float], allocation: Allocation, order: Rows) -> float:
    """The worst ratio of spend on later requests to spend planned on earlier ones; 1 at least."""
    given = {name: r for name, r in allocation.fractions.items() if r > 0}
    if profile.requests < FEWEST_SPLIT or not given:
        return 1.0
    stages = [stage for stage in profile.stages if stage.name in given]
    worst = 1.0
    for learned, judged in SPLITS:
        early = order[: int(learned * len(order))]
        late = order[int(learned * len(order)) : int(judged * len(order))]
        spent = math.fsum(
            costs[stage.name] * _later_fraction(stage, given[stage.name], early, late) for stage in stages
        )
        worst = max(worst, spent / allocation.spent)
    return worst


def _later_fraction(
    stage: StageProfile,
    fraction: float,
    early: Rows,
    late: Rows,
) -> float:
    """Copies per call on average over the profile, when the time-out is learned early and applied late."""
    learned = Pool.of(stage.calls_ms[early])
    if not len(learned):
        return fraction
    outs = learned.time_outs(np.array([fraction]))
    calls: Floats = stage.calls_ms[late]
    copies = float(outs.probability[0]) * float((calls > outs.after_ms[0]).sum()) / len(late)
    return copies / stage.calls_per_request
