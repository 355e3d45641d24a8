"""Reactions of a manager to events on a cluster: waiting, placement, growth and moves.

Four rules stand beside the scheduler: 1. a workload that cannot be placed waits in line; 2. a manager that
follows its workloads acts when one stays below 95% of its demand; 3. one that chooses sizes gives back what a
falling load leaves idle; 4. a workload that moves stands still meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import MIN_SHARE_ACCEPTED
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import trim
from kwiken.allocator.workloads.profile import WorkloadProfile
from kwiken.base.arrays import Ints
from papers.worlds.fleet.simulator.manager import Manager
from papers.worlds.fleet.simulator.site import FleetEvent, FleetSite, JobRun
from papers.worlds.fleet.simulator.state import QOS

COOL_DOWN_S: Final = 300.0  # between two actions for one workload that gets the same share of its demand
CHANGED: Final = 0.05  # by which a share of the demand differs from the same share, relative
RECLAIM_S: Final = 60.0  # after a fall of load
MIN_GAIN_OF_MOVE: Final = 0.05  # share of performance that a move must be predicted to win
MOVE_S: Final = 2.0  # of standing still, and one second more for each GB of memory (Paragon section 3.9)
GB_PER_S: Final = 1.0


class Reactions:
    """Reactions of one manager in one run.

    Args:
        site: cluster on which it acts.
        profiles: by job and phase: what the manager predicts.
        again: by job and phase: what the manager predicts once it has measured the job again.
    """

    def __init__(
        self,
        site: FleetSite,
        manager: Manager,
        profiles: tuple[tuple[WorkloadProfile, ...], ...],
        again: tuple[tuple[WorkloadProfile, ...], ...],
    ) -> None:
        self._site = site
        self._manager = manager
        self._profiles = profiles
        self._again = again
        self._unused = NodeLedger(site.scenario.cluster)
        self._line: deque[int] = deque()

    def on_arrival(self, place: int) -> None:
        """A job arrives: it joins the line, and is placed where there is room."""
        self._line.append(place)
        if len(self._line) <= self._site.scenario.look_ahead:
            self._admit()

    def on_end(self, place: int) -> None:
        """A job has ended: it leaves the cluster, and those that wait are tried."""
        run = self._site.runs[place]
        if place in self._line:  # a service whose time is up while it waits after a failure
            self._line.remove(place)
        assert run.sizing is not None
        run.sizing.clear()
        self.settle(self._site.replaced(run, place), (place,))
        self._site.state.running[place] = False
        self._site.state.finish_s[place] = np.inf
        self._admit()

    def on_tick(self, event: FleetEvent, place: int) -> None:
        """A moment has come that the manager has waited for.

        There are three cases: 1. a job has moved; 2. it has stayed below its demand; 3. its load fell a while
        ago.
        """
        match event:
            case FleetEvent.RESUME:
                self._site.state.paused[place] = False
                self._have_acted(self._site.runs[place], place, set())
            case FleetEvent.ACT:
                self._act(place)
            case _:
                self._reclaim(place)

    def on_load(self, place: int, factor: float) -> None:
        """The load of a service has changed.

        Args:
            factor: load from now on, as a factor of the target's rate.
        """
        run = self._site.runs[place]
        fell = factor < run.factor
        run.factor = factor
        target = run.job.workload.target
        assert run.request is not None
        assert target is not None
        run.request = replace(run.request, required=target.required * factor)
        self.settle((), (place,))
        # A fall may be short, so replicas are given back some time later, if they are still too many.
        if fell and self._manager.follows and self._manager.chooses_sizes:
            self._site.later(self._site.now_s + RECLAIM_S, FleetEvent.RECLAIM, place)

    def on_loss(self, hurt: Sequence[int]) -> None:
        """A node has failed: lost replicas are replaced, and jobs without any go to the head of the line.

        Args:
            hurt: indices of the jobs that lost replicas.
        """
        for place in hurt:
            run = self._site.runs[place]
            assert run.sizing is not None
            # Replicas that are left go on, and lost ones are replaced. A job without any starts anew, first.
            if run.sizing.replicas:
                self._site.outcome.decisions += 1
                self._manager.scheduler.place(run.sizing)
                self.settle(self._site.replaced(run, place), (place,))
            else:
                self._site.restart(run, place)
                self._line.appendleft(place)
        self._admit()

    def on_room(self) -> None:
        """A node takes work again."""
        self._admit()

    def settle(self, nodes: set[int] | tuple[int, ...], jobs: tuple[int, ...]) -> None:
        """Bring the true state up to date, and watch the jobs that it changed."""
        touched = self._site.state.settle(nodes, jobs, self._site.now_s)
        if self._manager.follows:
            self._watch(touched)

    def _admit(self) -> None:
        """Place waiting jobs in order; the first few that do not fit are passed by."""
        passed = 0
        while passed < min(self._site.scenario.look_ahead, len(self._line)):
            place = self._line[passed]
            if self._start(place):
                del self._line[passed]
            else:
                passed += 1

    def _start(self, place: int) -> bool:
        run = self._site.runs[place]
        if run.known_phase != run.phase:
            self._learn(run, place)
        assert run.request is not None
        sizing = Sizing(run.request, self._site.ledger)
        self._site.outcome.decisions += 1
        self._manager.scheduler.place(sizing)
        if not self._acceptable(run, sizing):
            sizing.clear()
            return False
        run.sizing = sizing
        state, outcome = self._site.state, self._site.outcome
        if np.isnan(outcome.started_s[place]):
            outcome.started_s[place] = self._site.now_s
            for step in run.job.steps:
                self._site.later(self._site.now_s + step.at_s, FleetEvent.STEP, place)
        state.start(place, self._site.now_s)
        if run.truth is None:
            self._site.behave(run, place)
        if state.service[place] and not np.isfinite(state.finish_s[place]):
            state.finish_s[place] = self._site.now_s + run.job.duration_s
        self.settle(self._site.replaced(run, place), (place,))
        return True

    def _learn(self, run: JobRun, place: int) -> None:
        """Measure a job as it behaves now, for the first time in its phase or again."""
        run.again = run.known_phase == run.phase
        run.request, run.known_phase = self._request(run, place), run.phase

    def _request(self, run: JobRun, place: int) -> PlacementRequest:
        profile, reserved = (self._again if run.again else self._profiles)[place][run.phase], None
        if run.job.reserved is not None and not self._manager.chooses_sizes:
            profile, reserved = profile.of_size(run.job.reserved.size), run.job.reserved.replicas
        found = request_for(run.job.workload, profile, self._site.scenario.cluster, self._manager.caution)
        return replace(found, required=found.required * run.factor, reserved=reserved)

    def _acceptable(self, run: JobRun, sizing: Sizing) -> bool:
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

    def _watch(self, touched: Ints) -> None:
        """Set or cancel the manager's actions by whether jobs get 95% of their demand now."""
        state = self._site.state
        shares = state.performance[touched] / state.demand[touched]
        below = (shares < QOS * (1 - 1e-9)) & state.running[touched] & ~state.paused[touched]
        for place, share, low in zip(touched.tolist(), shares.tolist(), below.tolist(), strict=True):
            run = self._site.runs[place]
            if not low:
                run.act_s = np.inf
                continue
            at_s = self._site.now_s + self._manager.detection_s
            due = at_s < run.act_s
            if abs(share - run.after_act) < CHANGED * run.after_act:
                # It gets what it got after the last action, which can do no more for it yet.
                at_s = max(at_s, run.calm_s)
                due = not run.calm_s <= run.act_s < np.inf
            if due:
                run.act_s = at_s
                self._site.later(at_s, FleetEvent.ACT, place)

    def _reclaim(self, place: int) -> None:
        """Give back what a service with less load does not need."""
        run = self._site.runs[place]
        assert run.sizing is not None
        assert run.request is not None
        run.sizing.renew(run.request)
        run.sizing.refresh()
        if run.sizing.forecast().met:
            trim(run.sizing)
            self.settle(self._site.replaced(run, place), (place,))
            self._admit()

    def _act(self, place: int) -> None:
        """Help a job that stays below its demand: add replicas where it is, and move it if that is better."""
        run = self._site.runs[place]
        if run.act_s != self._site.now_s:  # put off or cancelled since this event was made
            return
        run.act_s = np.inf
        sizing = run.sizing
        assert sizing is not None
        if not sizing.replicas:  # it waits in line
            return
        # What was measured holds for one phase, and a second look at the same phase gives more entries.
        if run.known_phase != run.phase or (self._manager.measures_again and not run.again):
            self._learn(run, place)
        request = run.request
        assert request is not None
        # A measurement corrects the prediction only where the sizes to choose from are the same.
        if _same_sizes(request, sizing.request):
            sizing.renew(request)
            sizing.refresh()
            performance = float(self._site.state.performance[place])
            run.request = request = _corrected(request, sizing, performance)
        before = sizing.replicas[:]
        run.sizing = trial = self._better(sizing, request)
        self._site.outcome.decisions += 1
        if not trial.replicas:  # no node takes what the workload has become; it goes on when there is room
            self._line.appendleft(place)
        elif {one.node for one in before} - {one.node for one in trial.replicas}:
            self._site.outcome.moves[place] += 1
            # A single replica serves nobody while its memory is copied; of several the others go on.
            if len(before) == 1 and len(trial.replicas) == 1:
                memory_gb = float(trial.request.memory_gb[trial.replicas[0].size])
                self._site.state.paused[place] = True
                self._site.later(self._site.now_s + MOVE_S + memory_gb / GB_PER_S, FleetEvent.RESUME, place)
        run.calm_s = self._site.now_s + COOL_DOWN_S
        self._have_acted(run, place, self._site.replaced(run, place))
        self._admit()

    def _have_acted(self, run: JobRun, place: int, nodes: set[int]) -> None:
        """Note what a job gets after an action."""
        touched = self._site.state.settle(nodes, (place,), self._site.now_s)
        run.after_act = self._site.share(place)
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
        trial = Sizing(request, self._site.ledger)
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


def _same_sizes(one: PlacementRequest, other: PlacementRequest) -> bool:
    return np.array_equal(one.cores, other.cores) and np.array_equal(one.memory_gb, other.memory_gb)


def _corrected(request: PlacementRequest, sizing: Sizing, performance: float) -> PlacementRequest:
    """A request whose predictions agree with a measured performance that is lower than predicted."""
    expected = sizing.forecast().performance
    if not 0 < performance < expected:
        return request
    return replace(request, rate=request.rate * (performance / expected))


def _put(sizing: Sizing, replicas: Sequence[tuple[int, int]]) -> None:
    for node, size in replicas:
        sizing.add(node, size)
