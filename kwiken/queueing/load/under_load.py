"""The plan's fixed point: reissues are load, load makes calls late, and late calls are reissued.

The source leaves it to its outlook (section 9; docs/queueing.md). Here: allocate, predict what the added
load does to latencies, learn the curves anew, allocate again, with damping, until the spend changes by less
than 1% of the budget. On the way stages where copies hurt at that load are refused any.
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
from kwiken.planning import IN_VAIN, PlanStudy, in_vain
from kwiken.profile import Profile, StageProfile
from kwiken.queueing.load.guard import CALLS, QUIET, SCOUT, Guard, Look, calls_each, guards, look, tail_hurts
from kwiken.queueing.load.simulate import LoadSimulation, policies_of, simulate_load
from kwiken.queueing.load.stage_model import LoadModel, StageModel
from kwiken.queueing.simulator import MOST_CALLS
from kwiken.service import Reissue

ROUNDS: Final = 8
SETTLED: Final = 0.01  # change of the spend, as a share of the budget, below which it is settled
DAMPING: Final = 0.5  # weight of the newest estimate of added load
SEARCHED: Final = 8  # stages whose thresholds are searched: of growing load the busiest ones feel most
REQUESTS: Final = 20_000  # that the final expectation rests on,
FEWEST: Final = 5000  # or at least so many
OVER: Final = 4  # where they are so many times the profile's, which then tells less than they do
SURE: Final = 0.1  # relative gain of p99, and of the mean beyond it, that few calls may show; no loss
MOVED: Final = 0.02  # relative change of a policy up to which its last look still holds

T = TypeVar("T")
StudyOf = Callable[[Profile], PlanStudy]


@dataclass(frozen=True)
class Settlement:
    """A plan that counts with the load that it makes.

    Attributes:
        study: the plan and its reasons, with notes on what load does.
        rounds: plans made on the way.
        settled: whether the spend came to rest.
        guards: from where on copies hurt, by stage: of those that are not quiet and have, or were refused, a
            policy, the `SEARCHED` busiest.
        unsearched: the rest of those. Where on copies would hurt was not looked for there, only whether they
            do at this load: so nothing is known of a higher one.
        refused: stages that get no copies because they would hurt.
        simulation: what the plan should do, by the queueing simulator.
    """

    study: PlanStudy
    rounds: int
    settled: bool
    guards: Mapping[str, Guard]
    unsearched: tuple[str, ...]
    refused: tuple[str, ...]
    simulation: LoadSimulation


def settle(
    model: LoadModel, study_of: StudyOf, *, load: float = 1.0, requests: int | None = None, seed: int = 0
) -> Settlement:
    """Find the plan that fits the load which it adds to.

    Args:
        model: of the profile.
        study_of: makes a plan for a profile, as `study_plan` does with everything else given.
        load: the load to plan for, times the profile's.
        requests: that the final expectation rests on; by default four times the profile's, from 5,000 to
            20,000. Fewer where a fan-out is so wide that they do not fit.
        seed: of all draws.

    Returns:
        The settled plan, with the profile's own digest. What it expects is the queueing simulator's word at
        that load; where it has partial answers or catch-up, which that does not know, the planner's word on
        latencies at that load stands.

    Raises:
        InputError: for a load that some stage cannot serve, or what `study_of` refuses.
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
        if harmless or search.rounds >= ROUNDS or not search.refuse_busiest(study.plan):
            break
    known, unsearched = search.guards(study.plan)
    plan = msgspec.structs.replace(study.plan, profile=model.profile.digest)
    if plan.expected is not None and not _unknown_levers(plan):
        plan = msgspec.structs.replace(plan, expected=tidied(_expected(plan.expected, simulation)))
    planned = [note for note in study.notes if not note.startswith(IN_VAIN)]  # it knew no queues
    told = [] if plan.expected is None else in_vain(plan.budgets.reissue, plan.expected)
    notes = (*planned, *told, *_notes(search, known, unsearched, simulation))
    return Settlement(
        study=replace(study, plan=plan, notes=notes),
        rounds=search.rounds,
        settled=search.settled,
        guards=known,
        unsearched=unsearched,
        refused=tuple(search.refused),
        simulation=simulation,
    )


def _requests(model: LoadModel, given: int | None) -> tuple[int, ...]:
    """How many requests to simulate, and how many more before copies are refused for what that shows."""
    widest = max(stage.station.fanout for stage in model.stages.values())
    fitting = max(1000, MOST_CALLS // (2 * widest))  # half, for the warm-up and other work
    if given is not None:
        return (min(given, fitting),)
    enough = max(FEWEST, OVER * model.profile.requests)
    most = min(REQUESTS, fitting)
    return (enough, most) if enough < most else (most,)


class _Search:
    """Looks for the fixed point."""

    def __init__(self, model: LoadModel, study_of: StudyOf, load: float, seed: int) -> None:
        self.model, self.load = model, load
        self._study_of, self._seed = study_of, seed
        self._added = dict.fromkeys(model.stages, 0.0)  # work of copies, as a share of that of calls
        self.refused: dict[str, Reissue | None] = {}  # None where copies hurt only with those of others
        self.rounds, self.settled = 0, False
        self._looks: dict[str, tuple[Reissue, int, Look]] = {}  # the newest: its policy, calls, what was seen
        self._calls = CALLS
        self._alone: dict[tuple[str, int], Floats] = {}  # by stage and calls: latencies without copies

    def run(self) -> PlanStudy:
        """Plan, look, and plan again until it rests."""
        spent = math.inf
        while True:
            self.rounds += 1
            study = self._study_of(under_load(self.model, self.load, self._added, self.refused, self._seed))
            refused, added = self._looked_at(study.plan)
            before, spent = spent, _planned(study.plan)
            close = abs(spent - before) <= SETTLED * study.plan.budgets.reissue
            self.settled = not refused and (close or self._idle(added))
            self.refused.update(refused)
            if self.settled or self.rounds >= ROUNDS:
                return _without(study, refused) if refused else study
            weight = 1.0 if self.rounds == 1 else DAMPING
            self._added = {n: (1 - weight) * was + weight * added[n] for n, was in self._added.items()}

    def _looked_at(self, plan: Plan) -> tuple[dict[str, Reissue], dict[str, float]]:
        """Policies that would hurt their stages, and the work that copies add at the others."""
        refused: dict[str, Reissue] = {}
        added = dict.fromkeys(self.model.stages, 0.0)
        busy = self._busy(plan)
        self._calls = min(self._calls, calls_each(len(busy)))  # no more later: what was seen stays of use
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
        """A look at the load planned for: the last one where the policy hardly moved since.

        It is compared with the policy that was looked at, so that many small steps make a new look too.
        """
        tried, calls, last = self._looks.get(name, (None, 0, None))
        if tried is not None and last is not None and calls == self._calls and _close(tried, policy):
            return last
        found = self._look_at(name, policy, SCOUT) if self._calls >= 2 * SCOUT else None
        if found is None or found.hurts or not found.changes_by(SURE):
            found = self._look_at(name, policy, self._calls)
        self._looks[name] = (policy, self._calls, found)
        return found

    def _look_at(self, name: str, policy: Reissue, calls: int) -> Look:
        """A look with so many calls; the arm without copies is the same for every policy."""
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
        """Policies of stages that are not quiet."""
        return {
            name: policy
            for name, policy in policies_of(self.model, plan).items()
            if self.model.stages[name].station.replicas is not None
            and self.model.stages[name].busy_at(self.load) >= QUIET
        }

    def refuse_busiest(self, plan: Plan) -> bool:
        """Refuse copies at the busiest stage that has any, as all together hurt; False where none is busy."""
        busy = {name: self.model.stages[name].busy_at(self.load) for name in self._busy(plan)}
        if not busy:
            return False
        self.refused[max(busy, key=lambda name: busy[name])] = None
        return True

    def _idle(self, added: Mapping[str, float]) -> bool:
        """Whether copies add so little work anywhere that nobody waits for it."""
        busy = (self.model.stages[name].busy_at(self.load) for name, share in added.items() if share)
        return all(used < QUIET for used in busy)

    def guards(self, plan: Plan) -> tuple[dict[str, Guard], tuple[str, ...]]:
        """From where on copies hurt at the busiest stages, and the stages where nobody looked for that."""
        alone = {name: policy for name, policy in self.refused.items() if policy is not None}
        policies = {**alone, **self._busy(plan)}
        hurts = {name: name in alone for name in policies}
        found = guards(self.model, policies, factor=self.load, seed=self._seed, busiest=SEARCHED, hurts=hurts)
        busy = {name: self.model.stages[name].busy_at(self.load) for name in self.refused.keys() - alone}
        together = {name: Guard(used, used) for name, used in busy.items()}
        return {**together, **found}, tuple(name for name in policies if name not in found)


def _close(one: Reissue, other: Reissue) -> bool:
    """Whether two policies are the same but for `MOVED`."""
    pairs = (
        (one.after_ms, other.after_ms),
        (one.probability, other.probability),
        (one.fraction, other.fraction),
    )
    return one.copies == other.copies and all(abs(a - b) <= MOVED * max(a, b) for a, b in pairs)


def under_load(
    model: LoadModel, load: float, added: Mapping[str, float], refused: Collection[str], seed: int
) -> Profile:
    """The profile as it would be at that load, copies' work included.

    Args:
        model: of the profile.
        load: times the profile's.
        added: by stage: work of copies, as a share of that of calls.
        refused: stages that may have no copies.
        seed: of all draws.
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
    """Copies come on top of the calls, as far as the replicas can do them."""
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
    """The study without reissues at some stages, nor what these would cost and gain."""
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
    """The simulator's percentiles; the planner's intervals, moved along in proportion."""
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
        notes.append(f"none are sent where replicas are so busy that copies make the tail worse: {told}")
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
            f"from where on copies hurt was searched at the {SEARCHED} busiest stages; at these it is not "
            f"known, only that they do not at this load: {', '.join(others)}"
        )
    if not search.settled:
        notes.append(f"plan and load did not come to rest in {search.rounds} rounds; the last plan is kept")
    return [*notes, *model.notes]


def _worse(simulation: LoadSimulation) -> list[str]:
    """That the plan does harm, where it could not be helped."""
    before, after = simulation.before.p99_ms, simulation.after.p99_ms
    if not tail_hurts(simulation.before_ms, simulation.after_ms):
        return []
    return [f"do not use this plan at this load: p99 is expected to rise from {before:.4g} to {after:.4g} ms"]


def _from(found: Guard | None) -> str:
    """From where on copies hurt at a stage that was refused them; nothing where nobody searched."""
    return "" if found is None else f", copies hurt from {found.above or found.utilisation:.0%}"
