"""Entry point of planning: costs, curves, apportionment, policies and the expected result of a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack

import msgspec

from kwiken.apportion import INSURANCE, OBJECTIVES, SPREADS, Allocation, Verdict, sumvar
from kwiken.curves import Curve, CurveBounds
from kwiken.errors import InputError
from kwiken.partial import PartialSettings, PartialStudy
from kwiken.plan import Budgets, LedgerTerms, Plan, StagePlan, later, tidied
from kwiken.planning.catch_up import LateStudy, study_catch_up
from kwiken.planning.levers import WAYS, LeverPlanner, LeverVerdict
from kwiken.planning.notes import reissue_notes, verdict_notes
from kwiken.planning.reissues import ReissueSettings, ReissueStudy
from kwiken.planning.useless_budget import useless_budget_notes
from kwiken.profile import CostModel, Drift, Profile, costs, drift, drift_notes, once_notes
from kwiken.simulation import Simulation, expect

MIN_REQUESTS = 10  # requests below which no quantile is meaningful


@dataclass(frozen=True)
class PlanStudy:
    """A plan with the findings behind it.

    Attributes:
        plan: the plan.
        curves: variance-response curve of each stage that may be reissued.
        allocation: budget of each stage, the gain of its policy, and the gain of a little more budget.
        simulation: effect of the plan on the profile's own requests.
        notes: remarks for the reader of the plan, in words.
        verdict: objective that was taken, and the results of the tried ones on later requests.
        partial: partial answers for the utility budget: rules, curves of variance against loss, losses.
        late: help for late requests for the catch-up budget: age, policies and gain.
        levers: choice between planning copies and partial answers separately or together.
        bounds: confidence bounds of the curve of each stage considered for reissue budget.
        drift: stages whose latencies changed during the recording.
        between: low and high gain of each stage that gets copies, ms² (90% interval); left out where there is
            no gain in variance, as may happen when a percentile is the objective.
    """

    plan: Plan
    curves: Mapping[str, Curve]
    allocation: Allocation
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
    """Keyword settings of `study_plan`, besides the profile."""

    budgets: Budgets
    objective: str
    cost: CostModel | None
    spread: str
    insurance: float
    created: str
    ledger: LedgerTerms | None
    seed: int
    copy_correlation: float | None
    partial: Collection[str] | None
    utility_weights: Mapping[str, float] | None
    levers: str


def make_plan(profile: Profile, **settings: Unpack[PlanSettings]) -> Plan:
    """Make the plan for a profile; see `study_plan` for the settings, errors and the findings behind it.

    Args:
        profile: recorded requests.
        **settings: settings of `study_plan`, by name.
    """
    return study_plan(profile, **settings).plan


def study_plan(
    profile: Profile,
    *,
    budgets: Budgets,
    objective: str = "tail",
    cost: CostModel | None = None,
    spread: str = "sumvar",
    insurance: float = INSURANCE,
    created: str,
    ledger: LedgerTerms | None = None,
    seed: int = 0,
    copy_correlation: float | None = None,
    partial: Collection[str] | None = None,
    utility_weights: Mapping[str, float] | None = None,
    levers: str = "auto",
) -> PlanStudy:
    """Make a plan and keep the findings behind it (Kwiken section 5.2).

    Args:
        profile: recorded requests.
        budgets: upper bounds of the spend, by lever.
        objective: `tail`, the stages' variances and means by their effect on p99; `variance`, the sum of the
            variances alone, as in the source; `p99` or `cvar` (mean of the slowest 1%) of whole requests, by
            descent from the answer of `tail`; `auto`, the better of `tail` and `p99` on requests later than
            those planned on.
        cost: cost model, as `costs` takes it.
        spread: `sumvar`; or, for comparison, `equal` (the same budget for every stage) or `uniform` (the same
            fraction of calls at every stage).
        insurance: share of the reissue budget, 0 to 1, that gives every stage the same share of copies,
            because what has not stalled may stall tomorrow; not for `variance`, which is the source's.
        created: RFC 3339 time to note in the plan.
        ledger: terms of the ledger, which the plan states, and whose refusals the expectation includes; None
            for the default terms, and an expectation without refusals. See `expect`.
        seed: seed of the draws behind the expectation.
        copy_correlation: correlation of the normal scores of a copy and its call, at every stage; 0 for
            independent copies; by default the one that each stage's pairs show, and 0 without pairs.
        partial: names of the fan-outs whose answers may be partial; by default all, if there is a utility
            budget.
        utility_weights: relative part of each stage in the utility of the whole answer, where parts count
            independently; by default an answer needs every stage's part.
        levers: planning of copies and partial answers: `separate`, one after the other; `joint`, by one price
            for each budget; `auto`, together only if that is better on requests later than those planned on.

    Returns:
        The study. The whole reissue budget is apportioned: on later requests the ledger keeps it. Budgets of
        utility and of catch-up keep a margin for them (see `kwiken.apportion.margin`).

    Raises:
        InputError: for an unknown objective, spread or cost, stages that cannot be partial, or a profile with
            too few requests.
    """
    _check(profile, objective, spread)
    _check_levers(levers, spread)
    if not 0 <= insurance <= 1:
        raise InputError(f"must be a share from 0 to 1, not {insurance}", where="insurance")
    shares = costs(profile, cost)
    settings = ReissueSettings(
        objective=objective,
        spread=spread,
        insurance=insurance,
        seed=seed,
        copy_correlation=copy_correlation,
    )
    planner = LeverPlanner(
        shares, budgets, settings, PartialSettings(stages=partial, weights=utility_weights, seed=seed)
    )
    found = planner.plan(profile, levers)
    stopping, reissues = found.partial, found.reissues
    draft = planner.draft(profile, found, created)
    draft = msgspec.structs.replace(draft, ledger=ledger or LedgerTerms())
    late = _catch_up(profile, draft, reissues, seed=seed, copy_correlation=copy_correlation)
    draft = tidied(msgspec.structs.replace(draft, stages=_helping(draft.stages, late)))
    simulation, expected = expect(profile, draft, ledger=ledger, seed=seed, copy_correlation=copy_correlation)
    plan = msgspec.structs.replace(draft, expected=tidied(expected))
    ages = {name: stage.reissue.after_ms for name, stage in plan.stages.items() if stage.reissue is not None}
    changed = drift(profile, after_ms=ages)
    return PlanStudy(
        plan=plan,
        curves=reissues.curves,
        allocation=reissues.allocation,
        simulation=simulation,
        notes=(
            *verdict_notes(reissues.verdict),
            *useless_budget_notes(profile, plan, reissues.curves, seed=seed),
            *reissue_notes(profile, reissues.curves, simulation.refused),
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
    """Whether a stage sends copies, at least for late requests."""
    late = stage.catch_up is not None and stage.catch_up.reissue
    return stage.reissue is not None or late


def _check_levers(levers: str, spread: str) -> None:
    if levers not in WAYS:
        raise InputError(f"must be one of {', '.join(WAYS)}, not {levers!r}", where="levers")
    if levers == "joint" and spread != "sumvar":
        raise InputError("'joint' goes with the spread 'sumvar' only", where="levers")


def _check(profile: Profile, objective: str, spread: str) -> None:
    if objective not in OBJECTIVES:
        raise InputError(f"must be one of {', '.join(OBJECTIVES)}, not {objective!r}", where="objective")
    if spread not in SPREADS:
        raise InputError(f"must be one of {', '.join(SPREADS)}, not {spread!r}", where="spread")
    if objective not in {"tail", "variance"} and spread != "sumvar":
        raise InputError(f"{objective!r} goes with the spread 'sumvar' only", where="objective")
    if profile.requests < MIN_REQUESTS:
        raise InputError(
            f"a plan needs at least {MIN_REQUESTS} requests, and the profile has {profile.requests}; "
            "trace the service for longer",
            where="profile",
        )


def _catch_up(
    profile: Profile, draft: Plan, reissues: ReissueStudy, *, seed: int, copy_correlation: float | None
) -> LateStudy:
    """Catch-up policies; copies where one budget for both levers would send any (Kwiken section 5.5)."""
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
