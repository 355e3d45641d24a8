"""Fixed point of plan and load: a plan that accounts for the load of its own copies.

Copies add load, load makes calls slower, and slow calls get copies. The source leaves this loop to its
outlook (section 9; see docs/traces/queueing.md). The search here plans, predicts latencies with the added
load, learns the curves again and plans again, with damping, until the spend changes by less than 1% of the
budget. Stages where copies make the tail worse at that load are refused any copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from kwiken.model.plan.plan import Expected, Intervals, Ladder, Plan
from kwiken.model.plan.rounding import rounded
from kwiken.model.profile.profile import Profile
from kwiken.model.service.stage import Reissue
from kwiken.tail.planning.cuts_of_p99 import no_gain_notes
from kwiken.tail.planning.notes import (
    CopiesHurtAtHigherLoad,
    CopiesRefused,
    HigherLoadNotSearched,
    NotConverged,
    Note,
    PlannedAtLoad,
    PlanRaisesP99,
    StageLoad,
)
from kwiken.tail.planning.study import LoadStudy, PlanStudy
from kwiken.tail.queueing.load.copies_at_load import CopiesAtLoad
from kwiken.tail.queueing.load.guard import QUIET, Guard, guards, tail_hurts
from kwiken.tail.queueing.load.loaded_profile import profile_under_load
from kwiken.tail.queueing.load.simulate import LoadSimulation, simulate_load
from kwiken.tail.queueing.load.stage_model import LoadModel
from kwiken.tail.queueing.simulator.stage import MAX_STAGE_CALLS

MAX_ROUNDS: Final = 8  # plans made before the search gives up
MAX_SPEND_CHANGE: Final = 0.01  # share of the budget by which a converged spend may still change
DAMPING: Final = 0.5  # weight of the newest estimate of added load
MAX_SEARCHED_STAGES: Final = 8  # stages whose thresholds are searched: the busiest feel growing load most
MAX_REQUESTS: Final = 20_000  # upper bound of the requests behind the final expectation
MIN_REQUESTS: Final = 5000  # lower bound of the first attempt at it
REQUESTS_PER_PROFILE_REQUEST: Final = 4  # beyond, the profile's own sampling error dominates

T = TypeVar("T")
StudyOf = Callable[[Profile], PlanStudy]


def plan_under_load(
    model: LoadModel, study_of: StudyOf, *, load: float = 1.0, requests: int | None = None, seed: int = 0
) -> PlanStudy:
    """Find the plan that fits the load to which its own copies contribute.

    Args:
        study_of: function that plans for a profile's latencies, such as `study_latencies`.
        load: load to plan for, as a factor of the profile's; above 0.
        requests: number of requests behind the final expectation; by default four times the profile's, from
            5,000 to 20,000. Fewer where a fan-out is so wide that they do not fit in memory.
        seed: seed of all draws.

    Returns:
        The study of the plan at the fixed point, with the profile's own digest. The expectation is the
        queueing simulator's at that load. A plan with partial answers or catch-up keeps the planner's
        expectation on latencies at that load, because the simulator does not model these levers.

    Raises:
        InputError: for a load that some stage cannot serve, or where `study_of` raises it.
    """
    # Two loops. The inner one (`_Search.run`) looks for the fixed point of spend and load, and refuses stages
    # whose copies hurt on their own. The outer one simulates all stages together: copies that are harmless
    # stage by stage may hurt in sum, and then the busiest stage loses its copies and the search goes on.
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
    # The simulator knows nothing of partial answers and catch-up: its figures would leave their gain out.
    if plan.expected is not None and not _unknown_levers(plan):
        plan = msgspec.structs.replace(plan, expected=rounded(_expected(plan.expected, simulation)))
    notes = (*no_gain_notes(plan), *study.notes, *_notes(search, known, unsearched, simulation))
    found = LoadStudy(
        rounds=search.rounds,
        settled=search.settled,
        guards=known,
        unsearched=unsearched,
        refused=tuple(search.refused),
        simulation=simulation,
    )
    return replace(study, plan=plan, notes=notes, load=found)


def _requests(model: LoadModel, given: int | None) -> tuple[int, ...]:
    """Numbers of requests to simulate, ascending: the larger one only if the smaller shows harm."""
    widest = max(stage.station.fanout for stage in model.stages.values())
    fitting = max(1000, MAX_STAGE_CALLS // (2 * widest))  # half, for the warm-up and other work
    if given is not None:
        return (min(given, fitting),)
    # More requests than the profile has samples for make the simulation, not the forecast, more exact. Harm
    # is shown by few requests in the tail, so a suspicion is checked once more with as many as allowed.
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
        self._copies = CopiesAtLoad(model, load, seed)

    def run(self) -> PlanStudy:
        """Plan and simulate until the spend converges or `MAX_ROUNDS` is reached."""
        spent = math.inf
        while True:
            self.rounds += 1
            study = self._study_of(
                profile_under_load(self.model, self.load, self._added, self.refused, self._seed)
            )
            # The planner sees latencies only. The judge simulates what its copies do to queues at this load.
            refused, added = self._copies.judge(study.plan)
            before, spent = spent, _planned(study.plan)
            close = abs(spent - before) <= MAX_SPEND_CHANGE * study.plan.budgets.reissue
            # Three conditions: no stage was refused in this round, as the budget of a refused stage goes to
            # the others in the next one; and either the spend hardly changed, or the copies cause no waiting,
            # so that another round would plan for the same latencies.
            self.settled = not refused and (close or self._idle(added))
            self.refused.update(refused)
            if self.settled or self.rounds >= MAX_ROUNDS:
                # At the last round stages may have been refused that the plan still reissues.
                return _without(study, refused) if refused else study
            # Undamped, the search can swing: more copies, more load, later time-outs, fewer copies, and so
            # on. The first estimate replaces the initial zero, which is no estimate.
            weight = 1.0 if self.rounds == 1 else DAMPING
            self._added = {n: (1 - weight) * was + weight * added[n] for n, was in self._added.items()}

    def refuse_busiest(self, plan: Plan) -> bool:
        """Refuse copies at the busiest stage with copies, as all together hurt; False if none is left."""
        busy = {name: self.model.stages[name].busy_at(self.load) for name in self._copies.busy(plan)}
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
        # Stages are of three kinds: 1. refused because their own copies hurt (`alone`): searched with the
        # policy that was refused; 2. with copies in the plan: searched with the plan's policy; 3. refused
        # because all copies together hurt: not searched, as no threshold of the stage alone would explain it.
        alone = {name: policy for name, policy in self.refused.items() if policy is not None}
        policies = {**alone, **self._copies.busy(plan)}
        hurts = {name: name in alone for name in policies}
        found = guards(
            self.model, policies, factor=self.load, seed=self._seed, busiest=MAX_SEARCHED_STAGES, hurts=hurts
        )
        busy = {name: self.model.stages[name].busy_at(self.load) for name in self.refused.keys() - alone}
        together = {name: Guard(used, used) for name, used in busy.items()}
        return {**together, **found}, tuple(name for name in policies if name not in found)


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
    run = {} if planned.run_ms is None else {"p99_ms": planned.run_ms}
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
        run_ms=_moved(run, planned.after, after).get("p99_ms"),
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
) -> list[Note]:
    model, load = search.model, search.load
    busiest, stage = max(model.stages.items(), key=lambda item: item[1].busy_at(load))
    notes: list[Note] = [PlannedAtLoad(simulation.rate_per_s, load, busiest, float(stage.busy_at(load)))]
    if tail_hurts(simulation.before_ms, simulation.after_ms):
        notes.append(PlanRaisesP99(simulation.before.p99_ms, simulation.after.p99_ms))
    if search.refused:
        notes.append(CopiesRefused(tuple(_refused(name, search, known) for name in search.refused)))
    near = tuple(
        StageLoad(name, found.utilisation, found.above)
        for name, found in known.items()
        if name not in search.refused and found.above is not None
    )
    if near:
        notes.append(CopiesHurtAtHigherLoad(near))
    others = tuple(name for name in unsearched if name not in search.refused)
    if others:
        notes.append(HigherLoadNotSearched(others, MAX_SEARCHED_STAGES))
    if not search.settled:
        notes.append(NotConverged(search.rounds))
    return [*notes, *model.notes]


def _refused(name: str, search: _Search, known: Mapping[str, Guard]) -> StageLoad:
    """Load of a stage that was refused copies, with its threshold where one was searched."""
    found = known.get(name)
    from_ = None if found is None else found.above or found.utilisation
    return StageLoad(name, float(search.model.stages[name].busy_at(search.load)), from_)
