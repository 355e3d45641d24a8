"""Note on a reissue budget without effect on p99, with the budget that would have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kwiken.apportion import apportion, choices_of
from kwiken.curves import Curve
from kwiken.plan import Expected, Plan
from kwiken.profile import Profile
from kwiken.simulation import ROWS, Arena

NO_GAIN = "this budget buys no p99 here"
MIN_CUT = 0.01  # relative fall of p99 that counts as none
MIN_CUT_NAMED = 0.05  # relative fall of p99 for which a larger budget is named
BUDGET_RATIO = 2.0  # ratio of successive budgets that are tried


def no_gain_notes(budget: float, expected: Expected) -> list[str]:
    """Note that a reissue budget is expected to leave p99 where it is; empty if p99 is expected to fall.

    Args:
        budget: reissue budget, as a share of all work.
        expected: expectation of the plan.
    """
    before, after = expected.before.p99_ms, expected.after.p99_ms
    if budget <= 0 or _cut(before, after) >= MIN_CUT:
        return []
    return [f"{NO_GAIN}: {before:.4g} ms without the plan, {after:.4g} ms expected with it"]


def useless_budget_notes(
    profile: Profile, plan: Plan, curves: Mapping[str, Curve], *, seed: int = 0
) -> list[str]:
    """Note on a reissue budget without effect on p99, with the larger budget that would have one.

    Args:
        profile: recorded requests.
        plan: plan with its expectation.
        curves: variance-response curve of each stage that may be reissued.
        seed: seed of the copies with which larger budgets are tried.
    """
    budget, expected = plan.budgets.reissue, plan.expected
    found = [] if expected is None else no_gain_notes(budget, expected)
    if not found:
        return []
    told = found[0]
    if not curves:
        return [f"{told}; no stage may be reissued"]
    for larger, cut in _larger(profile, plan, curves, budget, seed):
        if cut >= MIN_CUT_NAMED:
            return [f"{told}; a reissue budget of {larger:.3g} should cut it by {cut:.0%}"]
    return [f"{told}; no larger budget would cut it by {MIN_CUT_NAMED:.0%}"]


def _larger(
    profile: Profile, plan: Plan, curves: Mapping[str, Curve], budget: float, seed: int
) -> Iterator[tuple[float, float]]:
    """Larger budgets, each with the share by which it would cut p99."""
    prices = {name: plan.cost.stages[name] for name in curves}
    rows = np.repeat(np.arange(profile.requests), max(1, ROWS // profile.requests))
    arena = Arena(profile, curves, rows, seed=seed)
    base = _p99(arena, {})
    while budget < 1:
        budget = min(1.0, BUDGET_RATIO * budget)
        found = apportion(profile, curves, prices, budget, objective="tail", seed=seed)
        yield budget, _cut(base, _p99(arena, choices_of(curves, found)))


def _p99(arena: Arena, choices: Mapping[str, tuple[float, float]]) -> float:
    return float(np.percentile(arena.settle(choices), 99))


def _cut(before: float, after: float) -> float:
    return 1.0 - after / before if before > 0 else 0.0
