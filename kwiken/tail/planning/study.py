"""Plan for the latencies of a profile: settings, costs, curves, policies, and the expected effect."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from kwiken.base.errors import InputError
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.plan.plan import Budgets, Plan, StagePlan
from kwiken.model.plan.rounding import rounded, rounded_up_ms
from kwiken.model.profile.change_over_time import Drift, drift
from kwiken.model.profile.copy_dependence import copy_doubts
from kwiken.model.profile.cost_models import CostModel, costs
from kwiken.model.profile.idempotence import idempotence_notes
from kwiken.model.profile.notes import StagesChanged
from kwiken.model.profile.profile import Profile
from kwiken.tail.apportion.apportioner import INSURANCE, SPREADS
from kwiken.tail.apportion.candidates import EXCESS, WITHIN
from kwiken.tail.apportion.sum_of_variances import OBJECTIVES, Allocation, sumvar
from kwiken.tail.curves.confidence import CurveBounds
from kwiken.tail.curves.curve import Curve
from kwiken.tail.partial.loss_budget import PartialSettings, PartialStudy
from kwiken.tail.planning.catch_up import LateStudy, study_catch_up
from kwiken.tail.planning.levers import LeverPlanner, ReissueSettings, ReissueStudy, data_notes, spend_notes
from kwiken.tail.planning.notes import Note
from kwiken.tail.queueing.load.decompose import QueueSettings
from kwiken.tail.queueing.load.guard import Guard
from kwiken.tail.queueing.load.simulate import LoadSimulation
from kwiken.tail.simulation.expectation import expect
from kwiken.tail.simulation.run_range import RUN_REQUESTS, run_range
from kwiken.tail.simulation.trace_driven import Simulation


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """Settings of a plan. Budgets and the time of creation are needed; all else has a default.

    Attributes:
        budgets: upper bounds of the spend, by lever.
        created: RFC 3339 time to note in the plan.
        objective: `tail`, the stages' variances and means by their effect on p99; `variance`, the sum of the
            variances alone, as in the source.
        cost: cost model, as `costs` takes it.
        spread: `sumvar`; or, for comparison, `equal` (the same budget for every stage) or `uniform` (the same
            fraction of calls at every stage).
        insurance: share of the reissue budget, 0 to 1, that gives every stage the same share of copies,
            because what has not stalled may stall tomorrow; not for `variance`, which is the source's.
        within: share of the best cut of p99, 0 to 1, that may be given up to spend less; likewise.
        ledger: terms of the ledger, which the plan states, and whose refusals the expectation includes; None
            for the default terms, and an expectation without refusals. See `expect`.
        seed: seed of the draws behind the expectation.
        copy_correlation: correlation of the normal scores of a copy and its call, at every stage; 0 for
            independent copies; by default the one that each stage's pairs show, and 0 without pairs.
        partial: names of the fan-outs whose answers may be partial; by default all, if there is a utility
            budget.
        utility_weights: relative part of each stage in the utility of the whole answer, where parts count
            independently; by default an answer needs every stage's part.
        guarded: whether to account for the load of copies, where some stage is busy enough for it to matter,
            and send none where that hurts.
        load: load to plan for, as a factor of the profile's, which is accounted for in any case; None for
            the profile's own, accounted for where it matters.
        queues: what is known of replicas and queues beside the profile.

    Raises:
        InputError: for an unknown objective or spread, settings that do not go together, a load that is not a
            finite number above 0, or an insurance that is no share.
    """

    budgets: Budgets
    created: str
    objective: str = "tail"
    cost: CostModel | None = None
    spread: str = "sumvar"
    insurance: float = INSURANCE
    within: float = WITHIN
    ledger: LedgerTerms | None = None
    seed: int = 0
    copy_correlation: float | None = None
    partial: Collection[str] | None = None
    utility_weights: Mapping[str, float] | None = None
    guarded: bool = True
    load: float | None = None
    queues: QueueSettings = field(default_factory=QueueSettings)

    def __post_init__(self) -> None:
        _check_known("objective", self.objective, OBJECTIVES)
        _check_known("spread", self.spread, SPREADS)
        for name in ("insurance", "within"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"must be a share from 0 to 1, not {getattr(self, name)}", where=name)
        if self.load is not None and not 0 < self.load < math.inf:
            raise InputError(f"must be a finite number above 0, not {self.load}", where="load")
        if not self.guarded and (self.load is not None or self.queues != QueueSettings()):
            where = "queues" if self.load is None else "load"
            raise InputError("has no effect on a plan that leaves load out", where=where)


def _check_known(where: str, given: str, known: Collection[str]) -> None:
    if given not in known:
        raise InputError(f"must be one of {', '.join(known)}, not {given!r}", where=where)


@dataclass(frozen=True)
class LoadStudy:
    """Findings of a plan that accounts for the load of its own copies.

    Attributes:
        rounds: number of plans made by the search.
        guards: utilisation above which copies hurt, by stage. Covers the busiest stages that are not quiet
            and have a reissue policy or were refused one.
        unsearched: the other stages of that kind. For these only the effect at the planned load is known,
            not the threshold.
        refused: stages that get no copies because copies would make their tail worse.
        simulation: outcome of the plan in the queueing simulator.
    """

    rounds: int
    settled: bool
    guards: Mapping[str, Guard]
    unsearched: tuple[str, ...]
    refused: tuple[str, ...]
    simulation: LoadSimulation


@dataclass(frozen=True)
class PlanStudy:
    """A plan with the findings behind it.

    Attributes:
        curves: variance-response curve of each stage that may be reissued.
        allocation: budget of each stage, the gain of its policy, and the gain of a little more budget.
        simulation: effect of the plan on the profile's own requests.
        notes: what a reader of the plan should know.
        partial: partial answers for the utility budget: rules, curves of variance against loss, losses.
        late: help for late requests for the catch-up budget: age, policies and gain.
        bounds: confidence bounds of the curve of each stage considered for reissue budget.
        drift: stages whose latencies changed during the recording.
        between: low and high gain of each stage that gets copies, ms² (90% interval); left out where there is
            no gain in variance, as may happen when a percentile is the objective.
        load: findings on load; None where the plan does not account for load.
        by_spend: as that of `LeastSpend`.
    """

    plan: Plan
    curves: Mapping[str, Curve]
    allocation: Allocation
    simulation: Simulation
    notes: tuple[Note, ...]
    partial: PartialStudy = field(default_factory=PartialStudy)
    late: LateStudy = field(default_factory=LateStudy)
    bounds: Mapping[str, CurveBounds] = field(default_factory=dict)
    drift: tuple[Drift, ...] = ()
    between: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    load: LoadStudy | None = None
    by_spend: tuple[tuple[float, float], ...] = ()


def study_latencies(profile: Profile, settings: PlanSettings) -> PlanStudy:
    """Make a plan for latencies as a profile has them, whatever load the plan's copies add.

    Args:
        profile: requests, as recorded or as predicted for another load.
        settings: budgets, objective and levers; load and queues are ignored.

    Raises:
        InputError: for an unknown cost model, or stages that cannot be partial.
    """
    shares = costs(profile, settings.cost)
    planner = LeverPlanner(
        shares,
        settings.budgets,
        ReissueSettings(
            objective=settings.objective,
            spread=settings.spread,
            insurance=settings.insurance,
            within=settings.within,
            seed=settings.seed,
            copy_correlation=settings.copy_correlation,
        ),
        PartialSettings(stages=settings.partial, weights=settings.utility_weights, seed=settings.seed),
    )
    found = planner.plan(profile)
    stopping, reissues = found.partial, found.reissues
    draft = planner.draft(profile, found, settings.created)
    draft = msgspec.structs.replace(draft, ledger=settings.ledger or LedgerTerms())
    late = _catch_up(profile, draft, reissues, settings)
    draft = rounded(msgspec.structs.replace(draft, stages=_helping(draft.stages, late)))
    simulation, expected = expect(
        profile, draft, ledger=settings.ledger, seed=settings.seed, copy_correlation=settings.copy_correlation
    )
    least = reissues.least
    by_spend = tuple(each for each in least.by_spend if each[0] <= settings.budgets.reissue * (1 + EXCESS))
    after_ms, seed = simulation.after_ms, settings.seed
    run_ms = run_range(after_ms, expected, RUN_REQUESTS, recorded=profile.requests, seed=seed)
    expected = msgspec.structs.replace(
        expected, by_spend=by_spend, insured=least.insured, run_ms=run_ms, doubts=copy_doubts(profile)
    )
    plan = msgspec.structs.replace(draft, expected=rounded(expected))
    ages = {name: stage.reissue.after_ms for name, stage in plan.stages.items() if stage.reissue is not None}
    changed = drift(profile, after_ms=ages)
    return PlanStudy(
        plan=plan,
        curves=reissues.curves,
        allocation=reissues.allocation,
        simulation=simulation,
        notes=(
            *data_notes(profile, reissues.curves),
            *spend_notes(simulation.refused),
            *stopping.notes,
            *late.notes,
            *reissues.notes,
            *idempotence_notes(profile, [name for name, stage in plan.stages.items() if _copied(stage)]),
            *((StagesChanged(changed),) if changed else ()),
        ),
        partial=stopping,
        late=late,
        bounds=reissues.bounds,
        drift=changed,
        between=reissues.between,
        by_spend=least.by_spend,
    )


def _copied(stage: StagePlan) -> bool:
    """Whether a stage sends copies, at least for late requests."""
    late = stage.catch_up is not None and stage.catch_up.reissue
    return stage.reissue is not None or late


def _catch_up(profile: Profile, draft: Plan, reissues: ReissueStudy, settings: PlanSettings) -> LateStudy:
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
        seed=settings.seed,
        copy_correlation=settings.copy_correlation,
    )
    policies = {name: rounded(policy) for name, policy in found.policies.items()}
    after_ms = None if found.after_ms is None else rounded_up_ms(found.after_ms)
    return replace(found, policies=policies, after_ms=after_ms)


def _helping(stages: Mapping[str, StagePlan], late: LateStudy) -> dict[str, StagePlan]:
    return {
        name: msgspec.structs.replace(stage, catch_up=late.policies.get(name))
        for name, stage in stages.items()
    }
