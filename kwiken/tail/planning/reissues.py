"""Reissue planning: curves, an objective, and the budget apportioned by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.model.plan import Costs
from kwiken.model.profile import Profile, contradiction, unread_shares
from kwiken.model.service import Reissue
from kwiken.tail.apportion import (
    INSURANCE,
    Allocation,
    Apportioner,
    caution_notes,
    chosen,
)
from kwiken.tail.apportion.notes import ApportionNote
from kwiken.tail.curves import MIN_CALLS_FOR_CURVE, Curve, CurveBounds, stage_curves
from kwiken.tail.planning.notes import (
    AnswersUnread,
    CallsCancelled,
    CopiesAsSlow,
    CopiesCorrelated,
    FewRequests,
    Note,
    SpendRefused,
    TooFewCalls,
)

MIN_REQUESTS_FOR_P99: Final = 1000  # requests below which p99 rests on ten of them or fewer
MIN_REFUSED_NOTED: Final = 0.01  # share of the planned spend refused from which a note is given
MIN_CORRELATION_NOTED: Final = 0.05  # correlation of copies from which a note is given


@dataclass(frozen=True, kw_only=True)
class ReissueSettings:
    """Settings of a reissue plan; see `PlanSettings` for their meaning."""

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
        policies: reissue policy by stage that has one.
        bounds: confidence bounds of the curve of each stage considered for budget.
        between: low and high gain of each policy, ms² (90% interval).
        notes: what a reader of the plan should know.
    """

    curves: Mapping[str, Curve]
    allocation: Allocation
    policies: Mapping[str, Reissue]
    bounds: Mapping[str, CurveBounds]
    between: Mapping[str, tuple[float, float]]
    notes: tuple[ApportionNote, ...]


def study_reissues(profile: Profile, shares: Costs, budget: float, settings: ReissueSettings) -> ReissueStudy:
    """Apportion a reissue budget.

    Args:
        profile: recorded requests; calls of partial answers as their stop rules leave them.
        shares: cost of each stage.
        budget: upper bound of the spend, as a share of all work.
        settings: objective, spread, seed and correlation of copies.
    """
    curves = stage_curves(profile, seed=settings.seed, copy_correlation=settings.copy_correlation)
    prices = {name: shares.stages[name] for name in curves}
    aim = Apportioner(
        profile, curves, prices, settings.objective, settings.spread, settings.insurance, settings.seed
    )
    found = chosen(profile, curves, prices, aim(budget), seed=settings.seed)
    return ReissueStudy(
        curves,
        found.allocation,
        found.policies,
        bounds=aim.shrinkage.bounds,
        between=found.between,
        notes=caution_notes(aim.shrinkage.bounds),
    )


def data_notes(profile: Profile, curves: Mapping[str, Curve]) -> list[Note]:
    """Notes on what a profile cannot tell: few requests or calls, contradictions, cancelled calls, copies.

    Args:
        curves: variance-response curve of each stage that may be reissued.
    """
    notes: list[Note] = []
    if profile.requests < MIN_REQUESTS_FOR_P99:
        notes.append(FewRequests(profile.requests))
    if (contradicted := contradiction(profile)) is not None:
        notes.append(contradicted)
    cancelled = sum(int(stage.censored.sum()) for stage in profile.stages)
    if cancelled:
        notes.append(CallsCancelled(cancelled))
    linked = {
        name: float(curve.correlation)
        for name, curve in curves.items()
        if curve.correlation > MIN_CORRELATION_NOTED
    }
    if linked:
        notes.append(CopiesCorrelated(linked))
    if unread := unread_shares(profile):
        notes.append(AnswersUnread(unread))
    left = [s for s in profile.stages if s.reissuable and s.name not in curves]
    rare = tuple(s.name for s in left if (~np.isnan(s.calls_ms)).sum() < MIN_CALLS_FOR_CURVE)
    hopeless = tuple(s.name for s in left if s.name not in rare)
    if hopeless:
        notes.append(CopiesAsSlow(hopeless))
    if rare:
        notes.append(TooFewCalls(rare))
    return notes


def spend_notes(refused: float) -> tuple[SpendRefused, ...]:
    """Note on planned spend that the ledger should refuse; empty where there is little.

    Args:
        refused: share of the planned spend that the ledger should refuse.
    """
    return (SpendRefused(float(refused)),) if refused > MIN_REFUSED_NOTED else ()
