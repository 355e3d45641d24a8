"""Reissue planning: curves, an objective, and the budget apportioned by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from kwiken.apportion import (
    INSURANCE,
    Allocation,
    Apportioner,
    Verdict,
    caution_notes,
    chosen,
    cross_validated,
)
from kwiken.curves import Curve, CurveBounds, stage_curves
from kwiken.plan import Costs
from kwiken.profile import Profile
from kwiken.service import Reissue


@dataclass(frozen=True, kw_only=True)
class ReissueSettings:
    """Settings of a reissue plan; see `study_plan` for their meaning."""

    objective: str = "tail"
    spread: str = "sumvar"
    insurance: float = INSURANCE
    seed: int = 0
    copy_correlation: float | None = None


@dataclass(frozen=True)
class ReissueStudy:
    """Reissue policies with the findings behind them.

    Attributes:
        curves: variance-response curve of each stage that may be reissued.
        allocation: budget of each stage, with the gains of the policies chosen.
        verdict: objective that was taken.
        policies: reissue policy by stage that has one.
        bounds: confidence bounds of the curve of each stage considered for budget.
        between: low and high gain of each policy, ms² (90% interval).
        notes: remarks for the reader of the plan, in words.
    """

    curves: Mapping[str, Curve]
    allocation: Allocation
    verdict: Verdict
    policies: Mapping[str, Reissue]
    bounds: Mapping[str, CurveBounds]
    between: Mapping[str, tuple[float, float]]
    notes: tuple[str, ...]


def study_reissues(profile: Profile, shares: Costs, budget: float, settings: ReissueSettings) -> ReissueStudy:
    """Apportion a reissue budget.

    Args:
        profile: recorded requests; calls of partial answers as their stop rules leave them.
        shares: cost of each stage.
        budget: upper bound of the spend, as a share of all work.
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
    aim = Apportioner(
        profile, curves, prices, verdict.objective, settings.spread, settings.insurance, settings.seed
    )
    found = chosen(profile, curves, prices, aim(budget), seed=settings.seed)
    return ReissueStudy(
        curves,
        found.allocation,
        verdict,
        found.policies,
        bounds=aim.shrinkage.bounds,
        between=found.between,
        notes=tuple(caution_notes(aim.shrinkage.bounds)),
    )
