"""From a profile to a plan: costs, curves, apportionment, policies and what they should buy."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack

import msgspec

from kwiken.apportion import OBJECTIVES, SPREADS, Allocation, Verdict, sumvar
from kwiken.curves import Curve, CurveBounds
from kwiken.errors import InputError
from kwiken.partial import PartialSettings, PartialStudy
from kwiken.plan import Budgets, Plan, StagePlan, later, tidied
from kwiken.planning.catch_up import LateStudy, study_catch_up
from kwiken.planning.levers import WAYS, LeverPlanner, LeverVerdict
from kwiken.planning.notes import reissue_notes, verdict_notes
from kwiken.planning.reissues import ReissueSettings, ReissueStudy
from kwiken.planning.useless_budget import in_vain_notes
from kwiken.profile import CostModel, Drift, Profile, costs, drift, drift_notes, once_notes
from kwiken.simulation import Simulation, expect

FEWEST_REQUESTS = 10  # below, no quantile means anything


@dataclass(frozen=True)
class PlanStudy:
    """A plan, and why it is what it is.

    Attributes:
        plan: the plan.
        curves: by stage that may be reissued: its variance-response curve.
        allocation: who got how much, what its policy gains, and what more of it would gain.
        margin: share of the budget that was apportioned; the rest is kept because spend on later requests
            differs from spend on earlier ones.
        simulation: what the plan does to the profile's own requests.
        notes: what a reader should know, in words.
        verdict: which objective was taken, and how those that were tried did on later requests.
        partial: what the utility budget buys: rules, curves of variance against loss, who may lose what.
        late: what the catch-up budget buys: from which age on requests are helped, and how.
        levers: whether copies and partial answers were planned together, and how both ways did.
        bounds: by stage that reissue budget was meant for: how sure its curve is.
        drift: stages that changed while they were traced.
        between: by stage that gets copies: low and high of what they gain, ms² (nine times in ten); left out
            where they gain nothing, as for a percentile they may.
    """

    plan: Plan
    curves: Mapping[str, Curve]
    allocation: Allocation
    margin: float
    simulation: Simulation
    notes: tuple[str, ...]
    verdict: Verdict = field(default_factory=lambda: Verdict("variance", {}))
    partial: PartialStudy = field(default_factory=PartialStudy)
    late: LateStudy = field(default_factory=LateStudy)
    levers: LeverVerdict = field(default_factory=LeverVerdict)
    bounds: Mapping[str, CurveBounds] = field(default_factory=dict)
    drift: tuple[Drift, ...] = ()
    between: Mapping[str, tuple[float, float]] = field(default_factory=dict)


class PlanSettings(TypedDict, total=False):
    """Settings of `study_plan` beside the profile."""

    budgets: Budgets
    objective: str
    cost: CostModel | None
    spread: str
    created: str
    window_s: float | None
    seed: int
    copy_correlation: float | None
    partial: Collection[str] | None
    utility_weights: Mapping[str, float] | None
    levers: str


def make_plan(profile: Profile, **settings: Unpack[PlanSettings]) -> Plan:
    """The plan for a profile; see `study_plan` for the settings, errors and the reasons.

    Args:
        profile: what was learned.
        **settings: those of `study_plan`, by its names.
    """
    return study_plan(profile, **settings).plan


def study_plan(
    profile: Profile,
    *,
    budgets: Budgets,
    objective: str = "tail",
    cost: CostModel | None = None,
    spread: str = "sumvar",
    created: str,
    window_s: float | None = None,
    seed: int = 0,
    copy_correlation: float | None = None,
    partial: Collection[str] | None = None,
    utility_weights: Mapping[str, float] | None = None,
    levers: str = "auto",
) -> PlanStudy:
    """Make a plan and keep what led to it (Kwiken section 5.2).

    Args:
        profile: what was learned.
        budgets: what may be spent, by lever.
        objective: `tail`, the stages' variances and means as they count for p99; `variance`, the sum of the
            variances alone, as the source has it; `p99` or `cvar` (mean of the slowest 1%) of the whole, by
            descent from tail's answer; `auto`, that of tail and p99 which does better on requests later than
            those it was planned on.
        cost: as `costs` takes it.
        spread: `sumvar`; or, to compare with, `equal` (the same budget to every stage) or `uniform` (the same
            fraction of calls at every stage).
        created: RFC 3339 time to note in the plan.
        window_s: length of the window over which a ledger will keep the budget (the runtime's: 10 s), so that
            the expectation has what it refuses; None for none. See `expect`.
        seed: of the draws behind the expectation.
        copy_correlation: of a copy's normal score with its call's, at every stage; 0 for independent copies;
            by default what each stage's pairs say, and 0 where there are none.
        partial: names of the fan-outs whose answers may be partial; by default all, where there is a utility
            budget.
        utility_weights: by stage: its relative part in the utility of the whole answer, where parts count on
            their own; by default an answer needs every stage's part.
        levers: how copies and partial answers are planned: `separate`, one after the other; `joint`, by one
            price for each budget; `auto`, together only where that does better on requests later than those
            planned on.

    Returns:
        The study. Budgets are met on later requests than those that time-outs and stop rules were learned
        from, as far as the profile's own history tells (see `within_budget`).

    Raises:
        InputError: for an unknown objective, spread or cost, stages that cannot be partial, or a profile with
            too few requests.
    """
    _check(profile, objective, spread, window_s)
    _check_levers(levers, spread)
    shares = costs(profile, cost)
    settings = ReissueSettings(
        objective=objective, spread=spread, seed=seed, copy_correlation=copy_correlation
    )
    planner = LeverPlanner(
        shares, budgets, settings, PartialSettings(stages=partial, weights=utility_weights, seed=seed)
    )
    found = planner.plan(profile, levers)
    stopping, reissues = found.partial, found.reissues
    draft = planner.draft(profile, found, created)
    late = _catch_up(profile, draft, reissues, seed=seed, copy_correlation=copy_correlation)
    draft = tidied(msgspec.structs.replace(draft, stages=_helping(draft.stages, late)))
    simulation, expected = expect(
        profile, draft, window_s=window_s, seed=seed, copy_correlation=copy_correlation
    )
    plan = msgspec.structs.replace(draft, expected=tidied(expected))
    ages = {name: stage.reissue.after_ms for name, stage in plan.stages.items() if stage.reissue is not None}
    changed = drift(profile, after_ms=ages)
    return PlanStudy(
        plan=plan,
        curves=reissues.curves,
        allocation=reissues.allocation,
        margin=reissues.margin,
        simulation=simulation,
        notes=(
            *verdict_notes(reissues.verdict),
            *in_vain_notes(profile, plan, reissues.curves, seed=seed),
            *reissue_notes(profile, reissues.curves, reissues.margin, simulation.refused),
            *stopping.notes,
            *found.verdict.notes,
            *late.notes,
            *reissues.notes,
            *once_notes(profile, [name for name, stage in plan.stages.items() if _copied(stage)]),
            *drift_notes(changed),
        ),
        verdict=reissues.verdict,
        partial=stopping,
        late=late,
        levers=found.verdict,
        bounds=reissues.bounds,
        drift=changed,
        between=reissues.between,
    )


def _copied(stage: StagePlan) -> bool:
    """Whether copies go to a stage, be it of late requests only."""
    late = stage.catch_up is not None and stage.catch_up.reissue
    return stage.reissue is not None or late


def _check_levers(levers: str, spread: str) -> None:
    if levers not in WAYS:
        raise InputError(f"must be one of {', '.join(WAYS)}, not {levers!r}", where="levers")
    if levers == "joint" and spread != "sumvar":
        raise InputError("'joint' goes with the spread 'sumvar' only", where="levers")


def _check(profile: Profile, objective: str, spread: str, window_s: float | None) -> None:
    if objective not in OBJECTIVES:
        raise InputError(f"must be one of {', '.join(OBJECTIVES)}, not {objective!r}", where="objective")
    if spread not in SPREADS:
        raise InputError(f"must be one of {', '.join(SPREADS)}, not {spread!r}", where="spread")
    if objective not in {"tail", "variance"} and spread != "sumvar":
        raise InputError(f"{objective!r} goes with the spread 'sumvar' only", where="objective")
    if window_s is not None and not 0 < window_s < math.inf:
        raise InputError(f"must be a finite number of seconds above 0, not {window_s}", where="window_s")
    if profile.requests < FEWEST_REQUESTS:
        raise InputError(
            f"a plan needs at least {FEWEST_REQUESTS} requests, and the profile has {profile.requests}; "
            "trace the service for longer",
            where="profile",
        )


def _catch_up(
    profile: Profile, draft: Plan, reissues: ReissueStudy, *, seed: int, copy_correlation: float | None
) -> LateStudy:
    """Help for late requests; copies where one budget for both would send any (Kwiken section 5.5)."""
    budgets = draft.budgets
    if budgets.catch_up <= 0:
        return LateStudy()
    prices = {name: draft.cost.stages[name] for name in reissues.curves}
    whole = sumvar(reissues.curves, prices, budgets.reissue + budgets.catch_up).fractions
    found = study_catch_up(
        profile,
        draft,
        budgets.catch_up,
        reissue=whole,
        paying=[name for name, share in whole.items() if share > 0],
        seed=seed,
        copy_correlation=copy_correlation,
    )
    policies = {name: tidied(policy) for name, policy in found.policies.items()}
    after_ms = None if found.after_ms is None else later(found.after_ms)
    return replace(found, policies=policies, after_ms=after_ms)


def _helping(stages: Mapping[str, StagePlan], late: LateStudy) -> dict[str, StagePlan]:
    return {
        name: msgspec.structs.replace(stage, catch_up=late.policies.get(name))
        for name, stage in stages.items()
    }
