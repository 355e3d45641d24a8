"""Notes on a reissue budget without effect on p99, and on the budget that would have one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kwiken.model.latency import percentile
from kwiken.model.plan import Plan
from kwiken.model.profile import Profile
from kwiken.tail.apportion import MeanVarianceApportioner, choices_of
from kwiken.tail.curves import Curve
from kwiken.tail.planning.notes import LargerBudgetHelps, NoBudgetHelps, NoP99Cut, NoStageReissuable, Note
from kwiken.tail.simulation import ROWS, PairedSimulation

MIN_CUT = 0.01  # relative fall of p99 below which it counts as none
MIN_CUT_NAMED = 0.05  # relative fall of p99 for which a larger budget is named
BUDGET_RATIO = 2.0  # ratio of successive budgets that are tried
MAX_BUDGET_NAMED = 0.2  # larger budgets would be a larger service, not a few copies


def no_gain_notes(plan: Plan) -> tuple[NoP99Cut, ...]:
    """Note that a plan's reissue budget is expected to leave p99 where it is; empty if p99 should fall.

    Args:
        plan: plan; without an expectation there is no note.
    """
    if plan.expected is None or plan.budgets.reissue <= 0:
        return ()
    before, after = plan.expected.before.p99_ms, plan.expected.after.p99_ms
    return () if _cut(before, after) >= MIN_CUT else (NoP99Cut(before, after),)


def useless_budget_notes(
    profile: Profile, plan: Plan, curves: Mapping[str, Curve], *, seed: int = 0
) -> tuple[Note, ...]:
    """Notes on a reissue budget without effect on p99, and on the larger budget that would have one.

    Args:
        curves: variance-response curve of each stage that may be reissued.
        seed: seed of the copies with which larger budgets are tried.
    """
    found = no_gain_notes(plan)
    if not found:
        return ()
    if not curves:
        return (*found, NoStageReissuable())
    for larger, cut in _larger(profile, plan, curves, seed):
        if cut >= MIN_CUT_NAMED:
            return (*found, LargerBudgetHelps(larger, cut))
    return (*found, NoBudgetHelps(MIN_CUT_NAMED, max(MAX_BUDGET_NAMED, plan.budgets.reissue)))


def _larger(
    profile: Profile, plan: Plan, curves: Mapping[str, Curve], seed: int
) -> Iterator[tuple[float, float]]:
    """Larger budgets up to `MAX_BUDGET_NAMED`, each with the share by which it would cut p99."""
    prices = {name: plan.cost.stages[name] for name in curves}
    rows = np.repeat(np.arange(profile.requests), max(1, ROWS // profile.requests))
    paired = PairedSimulation(profile, curves, rows, seed=seed)
    base = _p99(paired, {})
    by_tail = MeanVarianceApportioner(profile, curves)
    budget = plan.budgets.reissue
    while budget < MAX_BUDGET_NAMED:
        budget = min(MAX_BUDGET_NAMED, BUDGET_RATIO * budget)
        yield budget, _cut(base, _p99(paired, choices_of(curves, by_tail(prices, budget))))


def _p99(paired: PairedSimulation, choices: Mapping[str, tuple[float, float]]) -> float:
    return percentile(paired.set_choices(choices), 99)


def _cut(before: float, after: float) -> float:
    return 1.0 - after / before if before > 0 else 0.0
