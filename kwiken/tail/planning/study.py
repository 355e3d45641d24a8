"""A plan for the latencies of a profile: costs, curves, apportionment, policies and the expected result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec

from kwiken.model.plan import LedgerTerms, Plan, StagePlan, rounded, rounded_up_ms
from kwiken.model.profile import Drift, Profile, costs, drift, idempotence_notes
from kwiken.model.profile.notes import StagesChanged
from kwiken.tail.apportion import Allocation, sumvar
from kwiken.tail.curves import Curve, CurveBounds
from kwiken.tail.partial import PartialSettings, PartialStudy
from kwiken.tail.planning.catch_up import LateStudy, study_catch_up
from kwiken.tail.planning.levers import LeverPlanner
from kwiken.tail.planning.notes import Note
from kwiken.tail.planning.reissues import (
    ReissueSettings,
    ReissueStudy,
    data_notes,
    spend_notes,
)
from kwiken.tail.planning.settings import PlanSettings
from kwiken.tail.queueing.load import Guard, LoadSimulation
from kwiken.tail.simulation import Simulation, expect


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
        profile,
        draft,
        ledger=settings.ledger,
        seed=settings.seed,
        copy_correlation=settings.copy_correlation,
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
