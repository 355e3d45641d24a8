"""Event-driven simulation of a cluster under one scheduler: arrivals, ends, phases, loads, failures.

The scheduler sees the ledger and predictions. What happens follows from the true state. Five rules stand
beside the scheduler: 1. a workload that cannot be placed waits in line; 2. a node that fails loses what runs
there, and a workload without replicas starts anew; 3. a manager that follows its workloads acts when one
stays below 95% of its demand; 4. one that chooses sizes gives back what a falling load leaves idle; 5. a
workload that moves stands still meanwhile.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

import numpy as np

from kwiken.allocator.placement import (
    MIN_SHARE_ACCEPTED,
    Caution,
    Draw,
    DrawKind,
    Forecast,
    NodeLedger,
    PlacementRequest,
    Scheduler,
    SizedReplica,
    Sizing,
    request_for,
    trim,
)
from kwiken.allocator.workloads import SOURCES, WorkloadProfile
from kwiken.base.arrays import Ints
from kwiken.lab.fleet.simulator.outcome import RECOVERY_S, FleetOutcome, PhaseChange
from kwiken.lab.fleet.simulator.scenario import Job, Scenario
from kwiken.lab.fleet.simulator.state import QOS, State
from kwiken.lab.fleet.simulator.truth import Truth

DETECTION_S: Final = 30.0  # a deviation that lasts this long is acted on by Paragon (section 3.9)
COOL_DOWN_S: Final = 300.0  # between two actions for one workload that gets the same share of its demand
CHANGED: Final = 0.05  # by which a share of the demand differs from the same share, relative
RECLAIM_S: Final = 60.0  # after a fall of load
MIN_GAIN_OF_MOVE: Final = 0.05  # share of performance that a move must be predicted to win
MOVE_S: Final = 2.0  # of standing still, and one second more for each GB of memory (Paragon section 3.9)
GB_PER_S: Final = 1.0


@dataclass(frozen=True, eq=False)
class Manager:
    """A scheduler with what it knows and how it goes on.

    Attributes:
        follows: whether deviations are detected and acted on after placement.
        chooses_sizes: whether the manager chooses sizes and numbers of replicas by its predictions, and
            accepts a placement that is predicted to come within 5% of the need. A manager of reservations
            places what the user reserves, whole, and never changes its amount.
        detection_s: time for which a deviation must last before it is acted on, in seconds.
    """

    name: str
    scheduler: Scheduler
    caution: Caution
    follows: bool = False
    chooses_sizes: bool = False
    detection_s: float = DETECTION_S

    @property
    def measures_again(self) -> bool:
        """Whether a workload that deviates is measured again, as Paragon does (section 3.9).

        A manager that chooses sizes takes what it observes instead (Quasar section 3.6).
        """
        return self.follows and not self.chooses_sizes


class FleetEvent(IntEnum):
    """Kind of event; events of one moment happen in this order."""

    UP = 0
    DOWN = 1
    STEP = 2
    RESUME = 3
    ACT = 4
    RECLAIM = 5
    ARRIVAL = 6
    LOOK = 7


@dataclass(eq=False)
class _Run:
    """One job while it is in the cluster or waits for it."""

    job: Job
    phase: int = 0
    truth: Truth | None = None
    sizing: Sizing | None = None
    request: PlacementRequest | None = None
    told: int = 0  # phase of which the manager knows the behaviour
    again: bool = False  # whether it has measured the job again in that phase
    factor: float = 1.0  # of load
    replicas: dict[SizedReplica, int] = field(default_factory=dict)  # with their number in the true state
    empty: tuple[PlacementRequest, bool, Forecast] | None = (
        None  # what an empty cluster could do for a request
    )
    act_s: float = np.inf  # when the manager will act
    calm_s: float = -np.inf  # until when it will not, while the job gets the same share of its demand
    after_act: float = np.nan  # the share of its demand that the job got when the manager had acted
    change: PhaseChange | None = None  # the last one that is noted
    look_s: float = np.inf  # when it is seen what the job gets after that change


class FleetSimulation:
    """One run of a scenario.

    Args:
        profiles: by job and phase: what the manager predicts.
        again: by job and phase: what the manager predicts once it has measured the job again.
    """

    def __init__(
        self,
        scenario: Scenario,
        profiles: tuple[tuple[WorkloadProfile, ...], ...],
        manager: Manager,
        again: tuple[tuple[WorkloadProfile, ...], ...],
    ) -> None:
        cluster, count = scenario.cluster, len(scenario.jobs)
        self._scenario = scenario
        self._profiles = profiles
        self._again = again
        self._manager = manager
        self._ledger = NodeLedger(cluster)
        self._unused = NodeLedger(cluster)
        self._state = State(cluster, count)
        self._runs = [_Run(job) for job in scenario.jobs]
        self._outcome = FleetOutcome.empty(count, float(cluster.cores.sum()))
        self._line: deque[int] = deque()
        self._down: dict[int, Draw] = {}
        self._events: list[tuple[float, FleetEvent, int, int]] = []
        self._order = itertools.count()
        self._now_s = 0.0
        for place, job in enumerate(scenario.jobs):
            self._state.service[place] = np.isfinite(job.duration_s)
            self._later(job.arrival_s, FleetEvent.ARRIVAL, place)
        for outage in scenario.outages:
            self._later(outage.down_s, FleetEvent.DOWN, outage.node)
            if np.isfinite(outage.up_s):
                self._later(outage.up_s, FleetEvent.UP, outage.node)

    def run(self) -> FleetOutcome:
        """Run until no job is left, or none of those that wait can ever be placed."""
        state, outcome = self._state, self._outcome
        while True:
            first = int(np.argmin(state.finish_s)) if len(self._runs) else 0
            end_s = float(state.finish_s[first]) if len(self._runs) else np.inf
            next_s = self._events[0][0] if self._events else np.inf
            if not np.isfinite(min(end_s, next_s)):
                break
            outcome.events += 1
            self._now_s = max(min(end_s, next_s), self._now_s)
            if end_s <= next_s:
                self._ended(first)
            else:
                _, event, _, subject = heapq.heappop(self._events)
                self._happened(event, subject)
            outcome.note(self._now_s, state.total_cores, state.total_used)
        self._close()
        return outcome

    def _later(self, at_s: float, event: FleetEvent, subject: int) -> None:
        heapq.heappush(self._events, (at_s, event, next(self._order), subject))

    def _happened(self, event: FleetEvent, subject: int) -> None:
        match event:
            case FleetEvent.ARRIVAL:
                self._arrive(subject)
            case FleetEvent.DOWN:
                self._fail(subject)
            case FleetEvent.UP:
                self._repair(subject)
            case FleetEvent.STEP:
                self._step(subject)
            case FleetEvent.RESUME:
                self._state.paused[subject] = False
                self._have_acted(self._runs[subject], subject, set())
            case FleetEvent.ACT:
                self._act(subject)
            case FleetEvent.RECLAIM:
                self._reclaim(subject)
            case FleetEvent.LOOK:
                self._look(subject)

    # Waiting and placement

    def _arrive(self, place: int) -> None:
        self._line.append(place)
        if len(self._line) <= self._scenario.look_ahead:
            self._admit()

    def _admit(self) -> None:
        """Place waiting jobs in order; the first few that do not fit are passed by."""
        passed = 0
        while passed < min(self._scenario.look_ahead, len(self._line)):
            place = self._line[passed]
            if self._start(place):
                del self._line[passed]
            else:
                passed += 1

    def _start(self, place: int) -> bool:
        run = self._runs[place]
        request = run.request
        if request is None or run.told != run.phase:
            request = self._learned(run, place)
        sizing = Sizing(request, self._ledger)
        self._outcome.decisions += 1
        self._manager.scheduler.place(sizing)
        if not self._acceptable(run, sizing):
            sizing.clear()
            return False
        run.sizing = sizing
        state, outcome = self._state, self._outcome
        if np.isnan(outcome.started_s[place]):
            outcome.started_s[place] = self._now_s
            for step in run.job.steps:
                self._later(self._now_s + step.at_s, FleetEvent.STEP, place)
        state.start(place, self._now_s)
        if run.truth is None:
            self._behave(run, place)
        if state.service[place] and not np.isfinite(state.finish_s[place]):
            state.finish_s[place] = self._now_s + run.job.duration_s
        self._settle(self._replaced(run, place), (place,))
        return True

    def _learned(self, run: _Run, place: int) -> PlacementRequest:
        """Measure a job as it behaves now, for the first time in its phase or again."""
        run.again = run.request is not None and run.told == run.phase
        run.request, run.told = self._request(run, place), run.phase
        return run.request

    def _request(self, run: _Run, place: int) -> PlacementRequest:
        profile, reserved = (self._again if run.again else self._profiles)[place][run.phase], None
        if run.job.reserved is not None and not self._manager.chooses_sizes:
            profile, reserved = profile.of_size(run.job.reserved.size), run.job.reserved.replicas
        found = request_for(run.job.workload, profile, self._scenario.cluster, self._manager.caution)
        return replace(found, required=found.required * run.factor, reserved=reserved)

    def _acceptable(self, run: _Run, sizing: Sizing) -> bool:
        """Whether a job starts with these replicas.

        There are three cases: 1. it has what the scheduler set out for; 2. a manager that chooses sizes
        expects at least 95% of the need; 3. an empty cluster would not give more.
        """
        if not sizing.replicas:
            return False
        scheduler = self._manager.scheduler
        if scheduler.satisfied(sizing):
            return True
        found = sizing.forecast()
        if self._manager.chooses_sizes and found.performance >= MIN_SHARE_ACCEPTED * found.needed:
            return True
        if run.empty is None or run.empty[0] is not sizing.request:
            alone = Sizing(sizing.request, self._unused)
            scheduler.place(alone)
            run.empty = sizing.request, scheduler.satisfied(alone), alone.forecast()
            alone.clear()
        _, satisfied, best = run.empty
        return not satisfied and found.performance >= MIN_SHARE_ACCEPTED * best.performance

    # The true state

    def _behave(self, run: _Run, place: int) -> None:
        """Take the true behaviour of the present phase into the state."""
        phase, state = run.job.phases[run.phase], self._state
        run.truth = truth = Truth(phase.truth, self._scenario.cluster)
        state.tolerated[:, place], state.caused[:, place] = truth.tolerated, truth.caused
        state.demand[place] = phase.reference * run.factor
        state.remaining[place] = phase.work
        for replica, number in run.replicas.items():
            state.rerate(number, self._rate(run, replica))

    def _rate(self, run: _Run, replica: SizedReplica) -> float:
        assert run.truth is not None
        assert run.sizing is not None
        request, node_class = run.sizing.request, int(self._ledger.cluster.class_of[replica.node])
        return run.truth.rate(
            float(request.cores[replica.size]), float(request.memory_gb[replica.size]), node_class
        )

    def _replaced(self, run: _Run, place: int) -> set[int]:
        """Bring the true state's replicas in line with the scheduler's; the nodes that changed."""
        there = {} if run.sizing is None else dict.fromkeys(run.sizing.replicas)
        nodes = set()
        self._state.advance(np.array([place]), self._now_s)  # with the replicas that it had until now
        for replica in [one for one in run.replicas if one not in there]:
            cores = replica.draws[0].cores
            nodes.add(self._state.drop(run.replicas.pop(replica), cores))
        for replica in there:
            if replica not in run.replicas:
                rate = self._rate(run, replica)
                cores = replica.draws[0].cores
                run.replicas[replica] = self._state.add(place, replica.node, rate, cores)
                nodes.add(replica.node)
        if run.truth is not None:
            self._state.efficiency[place] = run.truth.efficiency(len(run.replicas))
        return nodes

    def _settle(self, nodes: set[int] | tuple[int, ...], jobs: tuple[int, ...]) -> None:
        touched = self._state.settle(nodes, jobs, self._now_s)
        if self._manager.follows:
            self._watch(touched)

    def _watch(self, touched: Ints) -> None:
        """Set or cancel the manager's actions by whether jobs get 95% of their demand now."""
        state = self._state
        shares = state.performance[touched] / state.demand[touched]
        below = (shares < QOS * (1 - 1e-9)) & state.running[touched] & ~state.paused[touched]
        for place, share, low in zip(touched.tolist(), shares.tolist(), below.tolist(), strict=True):
            run = self._runs[place]
            if not low:
                run.act_s = np.inf
                continue
            at_s = self._now_s + self._manager.detection_s
            due = at_s < run.act_s
            if abs(share - run.after_act) <= CHANGED * run.after_act:
                # It gets what it got after the last action, which can do no more for it yet.
                at_s = max(at_s, run.calm_s)
                due = not run.calm_s <= run.act_s < np.inf
            if due:
                run.act_s = at_s
                self._later(at_s, FleetEvent.ACT, place)

    # What happens to jobs

    def _ended(self, place: int) -> None:
        """Go to the next phase, or end the job."""
        run = self._runs[place]
        self._state.advance(np.array([place]), self._now_s)
        if run.phase + 1 < len(run.job.phases):
            self._change_phase(run, place)
            return
        self._outcome.finished_s[place] = self._now_s
        if place in self._line:  # a service whose time is up while it waits after a failure
            self._line.remove(place)
        self._leave(run, place)
        self._state.running[place] = False
        self._state.finish_s[place] = np.inf
        run.act_s = run.look_s = np.inf
        self._admit()

    def _change_phase(self, run: _Run, place: int) -> None:
        """Go to the next phase; note what the job gets before and after, and look again later."""
        before = self._share(place)
        run.phase += 1
        self._behave(run, place)
        self._settle({one.node for one in run.replicas}, (place,))
        phase, run.look_s = run.job.phases[run.phase], np.inf
        if phase.work >= RECOVERY_S * phase.reference:
            run.change, run.look_s = PhaseChange(before, self._share(place)), self._now_s + RECOVERY_S
            self._outcome.changes.append(run.change)
            self._later(run.look_s, FleetEvent.LOOK, place)

    def _look(self, place: int) -> None:
        """Note what a job gets a while after a change of phase."""
        run = self._runs[place]
        if run.change is not None and run.look_s == self._now_s:
            run.change.later = self._share(place)

    def _share(self, place: int) -> float:
        """Performance of a job now, as a share of its demand."""
        return float(self._state.performance[place] / self._state.demand[place])

    def _leave(self, run: _Run, place: int) -> None:
        if run.sizing is not None:
            run.sizing.clear()
            run.sizing = None
        self._settle(self._replaced(run, place), (place,))

    def _step(self, place: int) -> None:
        """Change a service's load."""
        run, state = self._runs[place], self._state
        if not np.isnan(self._outcome.finished_s[place]):
            return
        since = self._now_s - self._outcome.started_s[place]
        factor = [step.factor for step in run.job.steps if step.at_s <= since + 1e-9][-1]
        fell = factor < run.factor
        run.factor = factor
        state.advance(np.array([place]), self._now_s)
        state.demand[place] = run.job.phases[run.phase].reference * factor
        if run.request is not None:
            required = run.job.workload.target.required if run.job.workload.target else 0.0
            run.request = replace(run.request, required=required * factor)
        self._settle((), (place,))
        if fell and self._manager.follows and self._manager.chooses_sizes:
            self._later(self._now_s + RECLAIM_S, FleetEvent.RECLAIM, place)

    def _reclaim(self, place: int) -> None:
        """Give back what a service with less load does not need."""
        run = self._runs[place]
        if run.sizing is None or run.request is None:
            return
        run.sizing.renew(run.request)
        run.sizing.refresh()
        if run.sizing.forecast().met:
            trim(run.sizing)
            self._settle(self._replaced(run, place), (place,))
            self._admit()

    def _fail(self, node: int) -> None:
        """A node stops: replicas there are lost, and replaced where there is room."""
        hurt = []
        for place, run in enumerate(self._runs):
            if run.sizing is not None and any(one.node == node for one in run.sizing.replicas):
                hurt.append(place)
                for at in range(len(run.sizing.replicas) - 1, -1, -1):
                    if run.sizing.replicas[at].node == node:
                        run.sizing.remove(at)
                self._settle(self._replaced(run, place), (place,))
        cluster = self._ledger.cluster
        whole = Draw(
            DrawKind.REPLICA,
            f"failure of {cluster.nodes[node].name}",
            node,
            float(cluster.cores[node]),
            float(cluster.memory_gb[node]),
            np.zeros(len(SOURCES)),
        )
        self._ledger.take(whole)
        self._down[node] = whole
        for place in hurt:
            run = self._runs[place]
            assert run.sizing is not None
            if run.sizing.replicas:
                self._outcome.decisions += 1
                self._manager.scheduler.place(run.sizing)
                self._settle(self._replaced(run, place), (place,))
            else:
                self._restart(run, place)
        self._admit()

    def _repair(self, node: int) -> None:
        """A node takes work again."""
        if node in self._down:
            self._ledger.release(self._down.pop(node))
        self._admit()

    def _restart(self, run: _Run, place: int) -> None:
        """Begin a job anew that lost all replicas; it goes to the head of the line."""
        run.sizing = None
        self._outcome.restarts[place] += 1
        if not self._state.service[place]:
            self._outcome.wasted += self._state.forget(place)
            run.phase, run.look_s = 0, np.inf
            self._behave(run, place)
        self._line.appendleft(place)

    def _act(self, place: int) -> None:
        """Help a job that stays below its demand: add replicas where it is, and move it if that is better."""
        run = self._runs[place]
        if run.act_s != self._now_s:
            return
        run.act_s = np.inf
        sizing = run.sizing
        if sizing is None or not sizing.replicas:
            return
        sizing.refresh()
        if run.told != run.phase or (self._manager.measures_again and not run.again):
            self._learned(run, place)
        run.request = request = run.request or sizing.request
        if _same_sizes(request, sizing.request):
            sizing.renew(request)
            sizing.refresh()
            run.request = _corrected(request, sizing, float(self._state.performance[place]))
        before = sizing.replicas[:]
        run.sizing = trial = self._better(sizing, run.request)
        self._outcome.decisions += 1
        if not trial.replicas:  # no node takes what the workload has become; it goes on when there is room
            run.sizing = None
            self._line.appendleft(place)
        elif {one.node for one in before} - {one.node for one in trial.replicas}:
            self._outcome.moves[place] += 1
            if len(before) == 1 and len(trial.replicas) == 1:
                memory_gb = float(trial.request.memory_gb[trial.replicas[0].size])
                self._state.paused[place] = True
                self._later(self._now_s + MOVE_S + memory_gb / GB_PER_S, FleetEvent.RESUME, place)
        run.calm_s = self._now_s + COOL_DOWN_S
        self._have_acted(run, place, self._replaced(run, place))
        self._admit()

    def _have_acted(self, run: _Run, place: int, nodes: set[int]) -> None:
        """Note what a job gets after an action; while it is moved it gets nothing, which tells nothing."""
        state = self._state
        touched = state.settle(nodes, (place,), self._now_s)
        stands = bool(state.paused[place]) or run.sizing is None
        run.after_act = np.nan if stands else self._share(place)
        self._watch(touched)

    def _better(self, sizing: Sizing, request: PlacementRequest) -> Sizing:
        """Replicas for a request that is now known better.

        There are two steps: 1. the replicas stay, and others are added; 2. if that does not meet the target,
        the workload is placed anew, and stays where that is not predicted to win 5%. Where sizes differ from
        those of the old request, only the second step is possible.
        """
        scheduler = self._manager.scheduler
        before = [(one.node, one.size) for one in sizing.replicas]
        same = _same_sizes(request, sizing.request)
        sizing.clear()
        trial = Sizing(request, self._ledger)
        _put(trial, before if same else [])
        scheduler.place(trial)
        stayed = trial.forecast()
        if same and not stayed.met:
            kept = [(one.node, one.size) for one in trial.replicas]
            trial.clear()
            scheduler.place(trial)
            if trial.forecast().performance <= (1 + MIN_GAIN_OF_MOVE) * stayed.performance:
                trial.clear()
                _put(trial, kept)
        return trial

    def _close(self) -> None:
        state, outcome = self._state, self._outcome
        state.advance(np.flatnonzero(state.running), self._now_s)
        outcome.take(state, np.array([job.arrival_s for job in self._scenario.jobs]))


def _same_sizes(one: PlacementRequest, other: PlacementRequest) -> bool:
    return np.array_equal(one.cores, other.cores) and np.array_equal(one.memory_gb, other.memory_gb)


def _corrected(request: PlacementRequest, sizing: Sizing, performance: float) -> PlacementRequest:
    """A request whose predictions agree with a measured performance that is lower than predicted."""
    expected = sizing.forecast().performance
    if not 0 < performance < expected:
        return request
    ratio = performance / expected
    return replace(request, base=request.base * ratio, rate=request.rate * ratio)


def _put(sizing: Sizing, replicas: Sequence[tuple[int, int]]) -> None:
    for node, size in replicas:
        sizing.add(node, size)
