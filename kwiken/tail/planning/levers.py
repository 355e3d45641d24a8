"""Planning of partial answers and reissues for one plan, one after the other (Kwiken section 5.6).

Stop rules are tuned on the calls as recorded, and reissues are planned on the calls as the rules leave them.
Copies recover part of the loss that the rules may cause, which the source leaves unused; so the rules are
tuned once more on the calls with their copies.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.plan.plan import VERSION, Budgets, Costs, Plan, StagePlan
from kwiken.model.profile.consistency import contradiction
from kwiken.model.profile.copy_estimates import unread_shares
from kwiken.model.profile.profile import Profile
from kwiken.model.service.stage import Reissue
from kwiken.tail.apportion.apportioner import INSURANCE, Apportioner, caution_notes
from kwiken.tail.apportion.candidates import WITHIN, LeastSpend, least_spend
from kwiken.tail.apportion.notes import ApportionNote
from kwiken.tail.apportion.policies import chosen
from kwiken.tail.apportion.sum_of_variances import Allocation
from kwiken.tail.curves.confidence import CurveBounds
from kwiken.tail.curves.curve import MIN_CALLS_FOR_CURVE, Curve, stage_curves
from kwiken.tail.partial.loss_budget import (
    PartialSettings,
    PartialStudy,
    loss_weights,
    shortened,
    study_partial,
)
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
from kwiken.tail.simulation.stage_replay import StageReplay

MIN_REQUESTS_FOR_P99: Final = 1000  # requests below which p99 rests on ten of them or fewer
MIN_REFUSED_NOTED: Final = 0.01  # share of the planned spend refused from which a note is given
MIN_CORRELATION_NOTED: Final = 0.05  # correlation of copies from which a note is given


@dataclass(frozen=True, kw_only=True)
class ReissueSettings:
    """Settings of a reissue plan; see `PlanSettings` for their meaning."""

    objective: str = "tail"
    spread: str = "sumvar"
    insurance: float = INSURANCE
    within: float = WITHIN
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
        least: that allocation, with what other spends are expected to buy.
    """

    curves: Mapping[str, Curve]
    allocation: Allocation
    policies: Mapping[str, Reissue]
    bounds: Mapping[str, CurveBounds]
    between: Mapping[str, tuple[float, float]]
    notes: tuple[ApportionNote, ...]
    least: LeastSpend


def study_reissues(profile: Profile, shares: Costs, budget: float, settings: ReissueSettings) -> ReissueStudy:
    """Apportion a reissue budget.

    Args:
        profile: recorded requests; calls of partial answers as their stop rules leave them.
        budget: upper bound of the spend, as a share of all work.
        settings: objective, spread, seed and correlation of copies.
    """
    curves = stage_curves(profile, seed=settings.seed, copy_correlation=settings.copy_correlation)
    prices = {name: shares.stages[name] for name in curves}
    aim = Apportioner(
        profile, curves, prices, settings.objective, settings.spread, settings.insurance, settings.seed
    )
    least = least_spend(profile, curves, prices, aim, budget, within=settings.within, seed=settings.seed)
    found = chosen(profile, curves, prices, least.allocation, seed=settings.seed)
    return ReissueStudy(
        curves,
        found.allocation,
        found.policies,
        bounds=aim.shrinkage.bounds,
        between=found.between,
        notes=caution_notes(aim.shrinkage.bounds),
        least=replace(
            least,
            allocation=found.allocation,
            insured=tuple(name for name in least.insured if name in found.policies),
        ),
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
    left = [s for s in profile.stages if s.reissuable and not s.lone and s.name not in curves]
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


MAX_JUDGING_DRAWS = 4  # draws of copies on which a rule's loss is judged
MAX_JUDGED_CALLS = 1 << 22  # calls in all of these draws; for a wide fan-out one draw is enough
SEED_STEP = 7919  # difference of the seeds of two draws


@dataclass(frozen=True)
class Levers:
    """Stop rules and reissues of one plan.

    Attributes:
        partial: stop rules for the utility budget.
        reissues: reissues for the reissue budget, planned on the calls as the stop rules leave them.
    """

    partial: PartialStudy
    reissues: ReissueStudy


@dataclass(frozen=True)
class LeverPlanner:
    """Planner of reissues and partial answers for profiles of one service (Kwiken section 5.6).

    Attributes:
        partial: settings of the stages that may answer in part.
    """

    shares: Costs
    budgets: Budgets
    reissue: ReissueSettings
    partial: PartialSettings

    def plan(self, profile: Profile) -> Levers:
        """Plan copies and partial answers."""
        partial, calls = PartialStudy(), profile
        if self.budgets.utility_loss > 0 or self.partial.stages or self.partial.weights:
            partial = study_partial(profile, self.budgets.utility_loss, self.partial)
            calls = shortened(profile, partial.policies, seed=self.partial.seed)
        reissues = study_reissues(calls, self.shares, self.budgets.reissue, self.reissue)
        if any(name in reissues.policies for name in partial.curves):
            partial = tuned_with_copies(
                profile, reissues.policies, self.budgets.utility_loss, self.partial, self.reissue
            )
        return Levers(partial, reissues)

    def draft(self, profile: Profile, levers: Levers, created: str = "") -> Plan:
        """Plan with these levers, without an entry for the requests' own time, which no policy can change.

        Args:
            created: time of creation to note in the plan, RFC 3339.
        """
        return Plan(
            version=VERSION,
            service=profile.service,
            created=created,
            profile=profile.digest,
            budgets=self.budgets,
            cost=self.shares,
            stages={
                stage.name: StagePlan(
                    match=stage.match,
                    reissue=levers.reissues.policies.get(stage.name),
                    partial=levers.partial.policies.get(stage.name),
                    once=not stage.reissuable,
                )
                for stage in profile.stages
                if not stage.own_time
            },
        )


def tuned_with_copies(
    profile: Profile,
    policies: Mapping[str, Reissue],
    budget: float,
    partial: PartialSettings,
    reissue: ReissueSettings,
) -> PartialStudy:
    """Stop rules tuned on fan-outs' calls with their copies, and judged on other draws of copies.

    A loss of a thousandth is a few dozen answers, so a rule tuned on one draw loses up to half as much again
    on others.

    Args:
        budget: mean utility that may be lost, as a share.
        partial: settings for the stages that may answer in part.
        reissue: settings with the correlation of copies and their calls.
    """
    names = tuple(loss_weights(profile, partial))
    cells = sum(profile.stage(name).calls_ms.size for name in names)
    judges = max(1, min(MAX_JUDGING_DRAWS, MAX_JUDGED_CALLS // max(1, cells)))
    calls, *others = [
        raced_calls(
            profile,
            policies,
            names,
            seed=partial.seed + draw * SEED_STEP,
            copy_correlation=reissue.copy_correlation,
        )
        for draw in range(1 + judges)
    ]
    return study_partial(profile, budget, partial, calls_ms=calls, judged_ms=others)


def raced_calls(
    profile: Profile,
    policies: Mapping[str, Reissue],
    names: Collection[str],
    *,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> dict[str, Floats]:
    """Answer times of fan-outs' shards under reissue policies.

    Args:
        seed: seed of copies and of their probabilities.
        copy_correlation: correlation of copies with their calls; None for the one that recorded pairs show.

    Returns:
        By stage: (n, width) milliseconds; NaN for no call.
    """
    found = {}
    for i, stage in enumerate(profile.stages):
        if stage.name in names:
            stage_replay = StageReplay(
                stage, 0.0, np.random.default_rng([seed, i]), copy_correlation=copy_correlation
            )
            found[stage.name] = stage_replay.raced(policies.get(stage.name))
    return found
