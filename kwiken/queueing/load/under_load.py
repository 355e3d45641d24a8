"""Fixed point of plan and load: a plan that accounts for the load of its own copies.

Copies add load, load makes calls slower, and slow calls get copies. The source leaves this loop to its
outlook (section 9; see docs/queueing.md). The search here plans, predicts latencies with the added load,
learns the curves again and plans again, with damping, until the spend changes by less than 1% of the budget.
Stages where copies make the tail worse at that load are refused any copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec
import numpy as np

from kwiken.arrays import Floats
from kwiken.latency import end_to_end
from kwiken.plan import Expected, Intervals, Ladder, Plan, tidied
from kwiken.planning import NO_GAIN, PlanStudy, no_gain_notes
from kwiken.profile import Profile, StageProfile
from kwiken.queueing.load.guard import (
    CALLS_PER_LOOK,
    QUIET,
    SCOUT_CALLS,
    Guard,
    Look,
    calls_each,
    guards,
    look,
    tail_hurts,
)
from kwiken.queueing.load.simulate import LoadSimulation, policies_of, simulate_load
from kwiken.queueing.load.stage_model import LoadModel, StageModel
from kwiken.queueing.simulator import MAX_STAGE_CALLS
from kwiken.service import Reissue

MAX_ROUNDS: Final = 8  # plans made before the search gives up
MAX_SPEND_CHANGE: Final = 0.01  # share of the budget by which a converged spend may still change
DAMPING: Final = 0.5  # weight of the newest estimate of added load
MAX_SEARCHED_STAGES: Final = 8  # stages whose thresholds are searched: the busiest feel growing load most
MAX_REQUESTS: Final = 20_000  # upper bound of the requests behind the final expectation
MIN_REQUESTS: Final = 5000  # lower bound of the first attempt at it
REQUESTS_PER_PROFILE_REQUEST: Final = 4  # beyond, the profile's own sampling error dominates
# relative gain of p99 and of the mean beyond it that a look with few calls can prove
SURE_CHANGE: Final = 0.1
POLICY_TOLERANCE: Final = 0.02  # relative change of a policy for which its last look is reused

T = TypeVar("T")
StudyOf = Callable[[Profile], PlanStudy]


@dataclass(frozen=True)
class PlanUnderLoad:
    """Plan at the fixed point of plan and load.

    Attributes:
        study: the plan and its reasons, with notes on the effect of load.
        rounds: number of plans made by the search.
        settled: whether the spend converged.
        guards: utilisation above which copies hurt, by stage. Covers the busiest stages, at most
            `MAX_SEARCHED_STAGES`, that are not quiet and have a reissue policy or were refused one.
        unsearched: the other stages of that kind. For these only the effect at the planned load is known,
            not the threshold.
        refused: stages that get no copies because copies would make their tail worse.
        simulation: outcome of the plan in the queueing simulator.
    """

    study: PlanStudy
    rounds: int
    settled: bool
    guards: Mapping[str, Guard]
    unsearched: tuple[str, ...]
    refused: tuple[str, ...]
    simulation: LoadSimulation


def plan_under_load(
    model: LoadModel, study_of: StudyOf, *, load: float = 1.0, requests: int | None = None, seed: int = 0
) -> PlanUnderLoad:
    """Find the plan that fits the load to which its own copies contribute.

    Args:
        model: load model of the profile.
        study_of: function that plans for a profile, such as `study_plan` with its settings bound.
        load: load to plan for, as a factor of the profile's; above 0.
        requests: number of requests behind the final expectation; by default four times the profile's, from
            5,000 to 20,000. Fewer where a fan-out is so wide that they do not fit in memory.
        seed: seed of all draws.

    Returns:
        The plan at the fixed point, with the profile's own digest. Its expectation is the queueing
        simulator's at that load. A plan with partial answers or catch-up keeps the planner's expectation on
        latencies at that load, because the simulator does not model these levers.

    Raises:
        InputError: for a load that some stage cannot serve, or where `study_of` raises it.
    """
    model.check(load)
    search = _Search(model, study_of, load, seed)
    while True:
        study = search.run()
        for count in _requests(model, requests):
            simulation = simulate_load(model, study.plan, factor=load, requests=count, seed=seed)
            harmless = not tail_hurts(simulation.before_ms, simulation.after_ms)
            if harmless:
                break
        if harmless or search.rounds >= MAX_ROUNDS or not search.refuse_busiest(study.plan):
            break
    known, unsearched = search.guards(study.plan)
    plan = msgspec.structs.replace(study.plan, profile=model.profile.digest)
    if plan.expected is not None and not _unknown_levers(plan):
        plan = msgspec.structs.replace(plan, expected=tidied(_expected(plan.expected, simulation)))
    # The planner's own note on a useless budget does not account for queues: judge the simulated result
    # instead.
    planned = [note for note in study.notes if not note.startswith(NO_GAIN)]
    told = [] if plan.expected is None else no_gain_notes(plan.budgets.reissue, plan.expected)
    notes = (*planned, *told, *_notes(search, known, unsearched, simulation))
    return PlanUnderLoad(
        study=replace(study, plan=plan, notes=notes),
        rounds=search.rounds,
        settled=search.settled,
        guards=known,
        unsearched=unsearched,
        refused=tuple(search.refused),
        simulation=simulation,
    )


def _requests(model: LoadModel, given: int | None) -> tuple[int, ...]:
    """Numbers of requests to simulate, ascending: the larger one only if the smaller shows harm."""
    widest = max(stage.station.fanout for stage in model.stages.values())
    fitting = max(1000, MAX_STAGE_CALLS // (2 * widest))  # half, for the warm-up and other work
    if given is not None:
        return (min(given, fitting),)
    enough = max(MIN_REQUESTS, REQUESTS_PER_PROFILE_REQUEST * model.profile.requests)
    most = min(MAX_REQUESTS, fitting)
    return (enough, most) if enough < most else (most,)


class _Search:
    """Iteration towards the fixed point, with the state that rounds share."""

    def __init__(self, model: LoadModel, study_of: StudyOf, load: float, seed: int) -> None:
        self.model, self.load = model, load
        self._study_of, self._seed = study_of, seed
        self._added = dict.fromkeys(model.stages, 0.0)  # work of copies, as a share of that of calls
        # None: harmful only together with copies of other stages
        self.refused: dict[str, Reissue | None] = {}
        self.rounds, self.settled = 0, False
        # newest by stage: policy, number of calls, result
        self._looks: dict[str, tuple[Reissue, int, Look]] = {}
        self._calls = CALLS_PER_LOOK
        # latencies without copies, by stage and number of calls
        self._alone: dict[tuple[str, int], Floats] = {}

    def run(self) -> PlanStudy:
        """Plan and simulate until the spend converges or `MAX_ROUNDS` is reached."""
        spent = math.inf
        while True:
            self.rounds += 1
            study = self._study_of(
                profile_under_load(self.model, self.load, self._added, self.refused, self._seed)
            )
            refused, added = self._looked_at(study.plan)
            before, spent = spent, _planned(study.plan)
            close = abs(spent - before) <= MAX_SPEND_CHANGE * study.plan.budgets.reissue
            self.settled = not refused and (close or self._idle(added))
            self.refused.update(refused)
            if self.settled or self.rounds >= MAX_ROUNDS:
                return _without(study, refused) if refused else study
            weight = 1.0 if self.rounds == 1 else DAMPING
            self._added = {n: (1 - weight) * was + weight * added[n] for n, was in self._added.items()}

    def _looked_at(self, plan: Plan) -> tuple[dict[str, Reissue], dict[str, float]]:
        """Policies that make their stage's tail worse, and the work that copies add at the other stages."""
        refused: dict[str, Reissue] = {}
        added = dict.fromkeys(self.model.stages, 0.0)
        busy = self._busy(plan)
        self._calls = min(self._calls, calls_each(len(busy)))  # never raised, so that cached looks stay valid
        for name, policy in policies_of(self.model, plan).items():
            if name not in busy:
                added[name] = policy.fraction
                continue
            found = self._look(name, policy)
            if found.hurts:
                refused[name] = policy
            else:
                added[name] = max(0.0, found.extra_load)
        return refused, added

    def _look(self, name: str, policy: Reissue) -> Look:
        """Simulate a policy at the planned load, or reuse the last look if the policy hardly changed.

        The comparison is with the policy that was simulated, so that many small changes cause a new look too.
        """
        tried, calls, last = self._looks.get(name, (None, 0, None))
        if tried is not None and last is not None and calls == self._calls and _close(tried, policy):
            return last
        found = self._look_at(name, policy, SCOUT_CALLS) if self._calls >= 2 * SCOUT_CALLS else None
        if found is None or found.hurts or not found.changes_by(SURE_CHANGE):
            found = self._look_at(name, policy, self._calls)
        self._looks[name] = (policy, self._calls, found)
        return found

    def _look_at(self, name: str, policy: Reissue, calls: int) -> Look:
        """Simulate with so many calls; the run without copies is cached, as no policy changes it."""
        found = look(
            self.model.stages[name],
            policy,
            factor=self.load,
            seed=self._seed,
            calls=calls,
            alone_ms=self._alone.get((name, calls)),
        )
        self._alone[name, calls] = found.alone_ms
        return found

    def _busy(self, plan: Plan) -> dict[str, Reissue]:
        """Reissue policies of the stages whose utilisation reaches `QUIET`."""
        return {
            name: policy
            for name, policy in policies_of(self.model, plan).items()
            if self.model.stages[name].station.replicas is not None
            and self.model.stages[name].busy_at(self.load) >= QUIET
        }

    def refuse_busiest(self, plan: Plan) -> bool:
        """Refuse copies at the busiest stage with copies, as all together hurt; False if none is left."""
        busy = {name: self.model.stages[name].busy_at(self.load) for name in self._busy(plan)}
        if not busy:
            return False
        self.refused[max(busy, key=lambda name: busy[name])] = None
        return True

    def _idle(self, added: Mapping[str, float]) -> bool:
        """Whether all stages with added work stay below `QUIET`, so that copies cause no waiting."""
        busy = (self.model.stages[name].busy_at(self.load) for name, share in added.items() if share)
        return all(used < QUIET for used in busy)

    def guards(self, plan: Plan) -> tuple[dict[str, Guard], tuple[str, ...]]:
        """Thresholds of the busiest stages, and the stages whose thresholds were not searched."""
        alone = {name: policy for name, policy in self.refused.items() if policy is not None}
        policies = {**alone, **self._busy(plan)}
        hurts = {name: name in alone for name in policies}
        found = guards(
            self.model, policies, factor=self.load, seed=self._seed, busiest=MAX_SEARCHED_STAGES, hurts=hurts
        )
        busy = {name: self.model.stages[name].busy_at(self.load) for name in self.refused.keys() - alone}
        together = {name: Guard(used, used) for name, used in busy.items()}
        return {**together, **found}, tuple(name for name in policies if name not in found)


def _close(one: Reissue, other: Reissue) -> bool:
    """Whether two policies differ by at most `POLICY_TOLERANCE`."""
    pairs = (
        (one.after_ms, other.after_ms),
        (one.probability, other.probability),
        (one.fraction, other.fraction),
    )
    return one.copies == other.copies and all(abs(a - b) <= POLICY_TOLERANCE * max(a, b) for a, b in pairs)


def profile_under_load(
    model: LoadModel, load: float, added: Mapping[str, float], refused: Collection[str], seed: int
) -> Profile:
    """The profile as it would be at another load, with the work of copies included.

    Args:
        model: load model of the profile.
        load: load as a multiple of the profile's; above 0.
        added: work of copies by stage, as a share of the work of calls.
        refused: stages that may have no copies.
        seed: seed of all draws.
    """
    profile = model.profile
    stages = tuple(
        _stage_under_load(
            stage, model.stages[stage.name], load, added[stage.name], refused=stage.name in refused, seed=seed
        )
        for stage in profile.stages
    )
    first = float(profile.started_s.min()) if profile.requests else 0.0
    return replace(
        profile,
        stages=stages,
        latency_ms=end_to_end(stages, {stage.name: stage.latency_ms for stage in stages}),
        started_s=first + (profile.started_s - first) / load,
    )


def _stage_under_load(
    stage: StageProfile, model: StageModel, load: float, added: float, *, refused: bool, seed: int
) -> StageProfile:
    """One stage at another load; copies add to its calls up to 99% utilisation."""
    most = model.factor_at(0.99)
    factor = min(load * (1.0 + added), max(load, most))
    calls = model.inflated(factor, seed=seed)
    pairs = stage.pairs_ms
    return replace(
        stage,
        calls_ms=calls,
        censored=np.zeros(calls.shape, np.bool_),
        pairs_ms=None if pairs is None else model.slower(pairs, factor, seed=seed),
        reissuable=stage.reissuable and not refused,
    )


def _planned(plan: Plan) -> float:
    """Planned spend on reissues, as a share of the cost of all requests."""
    return sum(
        plan.cost.stages[name] * entry.reissue.fraction
        for name, entry in plan.stages.items()
        if entry.reissue is not None
    )


def _without(study: PlanStudy, refused: Mapping[str, object]) -> PlanStudy:
    """The study without the reissues of some stages, and without their costs and gains."""
    stages = {
        name: msgspec.structs.replace(entry, reissue=None) if name in refused else entry
        for name, entry in study.plan.stages.items()
    }
    allocation, simulation = study.allocation, study.simulation
    gone = sum(study.plan.cost.stages[name] * allocation.fractions.get(name, 0.0) for name in refused)
    none = dict.fromkeys((name for name in allocation.fractions if name in refused), 0.0)
    return replace(
        study,
        plan=msgspec.structs.replace(study.plan, stages=stages),
        allocation=replace(
            allocation,
            fractions={**allocation.fractions, **none},
            spent=max(0.0, allocation.spent - gone),
            gains={**allocation.gains, **none},
            marginal={**allocation.marginal, **none},
        ),
        simulation=replace(
            simulation,
            stage_spent=_others(simulation.stage_spent, refused),
            stage_fraction=_others(simulation.stage_fraction, refused),
        ),
        between=_others(study.between, refused),
    )


def _others(values: Mapping[str, T], refused: Collection[str]) -> dict[str, T]:
    return {name: value for name, value in values.items() if name not in refused}


def _unknown_levers(plan: Plan) -> bool:
    return any(entry.partial is not None or entry.catch_up is not None for entry in plan.stages.values())


def _expected(planned: Expected, simulation: LoadSimulation) -> Expected:
    """Expectation with the simulator's percentiles and the planner's intervals scaled in proportion."""
    before, after = simulation.before, simulation.after
    return msgspec.structs.replace(
        planned,
        before=before,
        after=after,
        spent=msgspec.structs.replace(planned.spent, reissue=min(1.0, simulation.reissue)),
        bounds=Intervals(
            before=_moved(planned.bounds.before, planned.before, before),
            after=_moved(planned.bounds.after, planned.after, after),
            spent=planned.bounds.spent,
        ),
    )


def _moved(
    bounds: Mapping[str, tuple[float, float]], old: Ladder, new: Ladder
) -> dict[str, tuple[float, float]]:
    moved = {}
    for name, (low, high) in bounds.items():
        scale = getattr(new, name) / getattr(old, name) if getattr(old, name) > 0 else 1.0
        moved[name] = (low * scale, high * scale)
    return moved


def _notes(
    search: _Search, known: Mapping[str, Guard], unsearched: Collection[str], simulation: LoadSimulation
) -> list[str]:
    model, load = search.model, search.load
    name, stage = max(model.stages.items(), key=lambda item: item[1].busy_at(load))
    rate, busy = simulation.rate_per_s, stage.busy_at(load)
    notes = [
        (
            f"planned for {rate:.4g} requests a second, {load:g} times the profile's; the busiest stage, "
            f"{name}, is busy {busy:.0%} of the time"
        ),
        *_worse(simulation),
    ]
    if search.refused:
        told = ", ".join(
            f"{name} ({model.stages[name].busy_at(load):.0%} busy{_from(known.get(name))})"
            for name in search.refused
        )
        notes.append(f"no copies where replicas are so busy that copies make the tail worse: {told}")
    near = [
        f"{name} ({found.utilisation:.0%} busy, from {found.above:.0%})"
        for name, found in known.items()
        if name not in search.refused and found.above is not None
    ]
    if near:
        notes.append(f"copies help at this load and would hurt at a higher one: {', '.join(near)}")
    others = [name for name in unsearched if name not in search.refused]
    if others:
        notes.append(
            f"the load from which copies hurt was searched at the {MAX_SEARCHED_STAGES} busiest stages only; "
            f"at these copies do not hurt at this load, higher loads are not known: {', '.join(others)}"
        )
    if not search.settled:
        notes.append(f"plan and load did not converge in {search.rounds} rounds; the last plan is kept")
    return [*notes, *model.notes]


def _worse(simulation: LoadSimulation) -> list[str]:
    """Warning that the plan raises p99, where refusing copies did not prevent it."""
    before, after = simulation.before.p99_ms, simulation.after.p99_ms
    if not tail_hurts(simulation.before_ms, simulation.after_ms):
        return []
    return [f"do not use this plan at this load: p99 is expected to rise from {before:.4g} to {after:.4g} ms"]


def _from(found: Guard | None) -> str:
    """Threshold of a stage that was refused copies, in words; empty where it was not searched."""
    return "" if found is None else f", copies hurt from {found.above or found.utilisation:.0%}"
