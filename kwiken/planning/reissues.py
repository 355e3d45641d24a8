"""The reissue lever of a plan: curves, an objective, and a budget apportioned for later requests to keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from kwiken.apportion import (
    Allocation,
    Apportioner,
    Verdict,
    caution_notes,
    chosen,
    cross_validated,
    within_budget,
)
from kwiken.curves import Curve, CurveBounds, stage_curves
from kwiken.plan import Costs
from kwiken.profile import Profile
from kwiken.service import Reissue


@dataclass(frozen=True, kw_only=True)
class ReissueSettings:
    """How a reissue budget is apportioned; see `study_plan`."""

    objective: str = "tail"
    spread: str = "sumvar"
    seed: int = 0
    copy_correlation: float | None = None


@dataclass(frozen=True)
class ReissueStudy:
    """Reissue policies, and what led to them.

    Attributes:
        curves: by stage that may be reissued: its variance-response curve.
        allocation: who got how much, with the gains of the policies chosen.
        margin: share of the budget that was apportioned.
        verdict: which objective was taken.
        policies: by stage that gets any.
        bounds: by stage that budget was meant for: how sure its curve is.
        between: by stage that gets any: low and high of what its policy gains, ms².
        notes: what a reader should know, in words.
    """

    curves: Mapping[str, Curve]
    allocation: Allocation
    margin: float
    verdict: Verdict
    policies: Mapping[str, Reissue]
    bounds: Mapping[str, CurveBounds]
    between: Mapping[str, tuple[float, float]]
    notes: tuple[str, ...]


def study_reissues(profile: Profile, shares: Costs, budget: float, settings: ReissueSettings) -> ReissueStudy:
    """Apportion a reissue budget.

    Args:
        profile: what was learned; of partial answers, with the calls as their stop rules leave them.
        shares: what stages cost.
        budget: the most that may be spent.
        settings: objective, spread, seed and correlation of copies.
    """
    curves_of = partial(stage_curves, seed=settings.seed, copy_correlation=settings.copy_correlation)
    curves = curves_of(profile)
    prices = {name: shares.stages[name] for name in curves}
    verdict = Verdict(settings.objective, {})
    if settings.objective == "auto":
        verdict = cross_validated(
            profile, prices, budget, curves_of=curves_of, curves=curves, seed=settings.seed
        )
    aim = Apportioner(profile, curves, prices, verdict.objective, settings.spread, settings.seed)
    spending = within_budget(profile, prices, budget, aim)
    found = chosen(profile, curves, prices, spending.allocation, seed=settings.seed)
    return ReissueStudy(
        curves,
        found.allocation,
        spending.margin,
        verdict,
        found.policies,
        bounds=aim.shrinkage.bounds,
        between=found.between,
        notes=tuple(caution_notes(aim.shrinkage.bounds)),
    )
