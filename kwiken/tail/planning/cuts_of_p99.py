"""Cuts of p99 by the copies of each stage, and notes on a budget that cuts nothing."""

from __future__ import annotations

from typing import NamedTuple

from kwiken.model.latency import percentile
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.profile import Profile
from kwiken.tail.apportion.candidates import LADDER
from kwiken.tail.apportion.sum_of_variances import choices_of
from kwiken.tail.planning.notes import LargerBudgetHelps, NoBudgetHelps, NoP99Cut, NoStageReissuable, Note
from kwiken.tail.planning.study import PlanStudy
from kwiken.tail.simulation.common_random_numbers import PairedSimulation, smooth_p99
from kwiken.tail.simulation.expectation import expected_rows

MORE = 0.01  # of all work, that a stage is given beyond its share


class P99Cut(NamedTuple):
    """Cut of p99 by one stage, milliseconds.

    Attributes:
        cut_ms: by how much p99 would rise without the copies of the stage; 0 where it gets none.
        next_ms: by how much it would fall if the stage were given 1% of all work more.
    """

    cut_ms: float
    next_ms: float


def p99_cuts(profile: Profile, study: PlanStudy, *, seed: int = 0) -> dict[str, P99Cut]:
    """Cuts of p99 of the requests as recorded, by stage that may be reissued.

    All are compared on the requests, copies and coins of the plan's expectation. p99 is the mean from 98.5 to
    99.5%, as small steps do not move a single percentile; where p99 itself moves more, that is the cut.

    Args:
        profile: requests, as recorded, of the plan.
        study: plan for them, with its findings.
    """
    if not study.curves or not profile.requests:
        return {}
    choices = choices_of(study.curves, study.allocation)
    paired = PairedSimulation(profile, study.curves, expected_rows(profile), seed=seed)
    latency_ms = paired.set_choices(choices)
    whole, p99_ms = smooth_p99(latency_ms), percentile(latency_ms, 99)
    found = {}
    for name, curve in study.curves.items():
        share, coin = choices.get(name, (0.0, 1.0))
        more = min(1.0, share + MORE / max(MORE, study.plan.cost.stages[name]))
        after = smooth_p99(paired.with_choices({name: (more, coin if share else curve.coin_at(more))}))
        cut_ms = 0.0
        if share:
            without_ms = paired.with_choices({name: (0.0, 1.0)})
            cut_ms = max(smooth_p99(without_ms) - whole, percentile(without_ms, 99) - p99_ms)
        found[name] = P99Cut(cut_ms, max(0.0, whole - after))
    return found


MIN_CUT = 0.01  # relative fall of p99 below which it counts as none
MIN_CUT_NAMED = 0.05  # relative fall of p99 for which a larger budget is named
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


def useless_budget_notes(study: PlanStudy) -> tuple[Note, ...]:
    """Notes on a reissue budget without effect on p99, and on the larger budget that would have one.

    Args:
        study: plan by the objective `tail`, with what all spends are expected to buy.
    """
    plan = study.plan
    found = no_gain_notes(plan)
    if not found:
        return ()
    if not study.curves:
        return (*found, NoStageReissuable())
    base_ms = study.by_spend[0][1]
    for larger in LADDER:
        p99_ms = min(p99_ms for spent, p99_ms in study.by_spend if spent <= larger)
        if plan.budgets.reissue < larger <= MAX_BUDGET_NAMED and _cut(base_ms, p99_ms) >= MIN_CUT_NAMED:
            return (*found, LargerBudgetHelps(larger, _cut(base_ms, p99_ms)))
    return (*found, NoBudgetHelps(MIN_CUT_NAMED, max(MAX_BUDGET_NAMED, plan.budgets.reissue)))


def _cut(before: float, after: float) -> float:
    return 1.0 - after / before if before > 0 else 0.0
