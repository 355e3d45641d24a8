"""Event-driven simulation of a cluster under one manager: arrivals, ends, phases, loads, failures.

What happens follows from the true state. The manager sees the ledger and predictions, and reacts
(`Reactions`). A node that fails loses what runs there, and a workload without replicas starts anew.
"""

from __future__ import annotations

import heapq

import numpy as np

from kwiken.allocator.placement.node_ledger import Draw, DrawKind
from kwiken.allocator.workloads.profile import WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from papers.worlds.fleet.simulator.manager import Manager
from papers.worlds.fleet.simulator.outcome import RECOVERY_S, FleetOutcome, PhaseChange
from papers.worlds.fleet.simulator.reactions import Reactions
from papers.worlds.fleet.simulator.scenario import Scenario
from papers.worlds.fleet.simulator.site import FleetEvent, FleetSite, JobRun


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
        self._site = site = FleetSite(scenario)
        self._reactions = Reactions(site, manager, profiles, again)
        self._down: dict[int, Draw] = {}
        for place, job in enumerate(scenario.jobs):
            site.state.service[place] = np.isfinite(job.duration_s)
            site.later(job.arrival_s, FleetEvent.ARRIVAL, place)
        for outage in scenario.outages:
            site.later(outage.down_s, FleetEvent.DOWN, outage.node)
            if np.isfinite(outage.up_s):
                site.later(outage.up_s, FleetEvent.UP, outage.node)

    def run(self) -> FleetOutcome:
        """Run until no job is left, or none of those that wait can ever be placed."""
        site = self._site
        state, outcome = site.state, site.outcome
        while True:
            first = int(np.argmin(state.finish_s)) if len(site.runs) else 0
            end_s = float(state.finish_s[first]) if len(site.runs) else np.inf
            next_s = site.events[0][0] if site.events else np.inf
            if not np.isfinite(min(end_s, next_s)):
                break
            outcome.events += 1
            site.now_s = max(min(end_s, next_s), site.now_s)
            if end_s <= next_s:
                self._ended(first)
            else:
                _, event, _, subject = heapq.heappop(site.events)
                self._happened(event, subject)
            outcome.note(site.now_s, state.total_cores, state.total_used)
        self._close()
        return outcome

    def _happened(self, event: FleetEvent, subject: int) -> None:
        match event:
            case FleetEvent.ARRIVAL:
                self._reactions.on_arrival(subject)
            case FleetEvent.DOWN:
                self._fail(subject)
            case FleetEvent.UP:
                self._repair(subject)
            case FleetEvent.STEP:
                self._step(subject)
            case FleetEvent.LOOK:
                self._look(subject)
            case _:
                self._reactions.on_tick(event, subject)

    def _ended(self, place: int) -> None:
        """Go to the next phase, or end the job."""
        run = self._site.runs[place]
        self._site.state.advance(np.array([place]), self._site.now_s)
        if run.phase + 1 < len(run.job.phases):
            self._change_phase(run, place)
            return
        self._site.outcome.finished_s[place] = self._site.now_s
        run.look_s = np.inf
        self._reactions.on_end(place)

    def _change_phase(self, run: JobRun, place: int) -> None:
        """Go to the next phase; note what the job gets before and after, and look again later."""
        before = self._site.share(place)
        run.phase += 1
        self._site.behave(run, place)
        self._reactions.settle({one.node for one in run.replicas}, (place,))
        phase, run.look_s = run.job.phases[run.phase], np.inf
        if phase.work >= RECOVERY_S * phase.reference:
            run.change = PhaseChange(before, self._site.share(place))
            run.look_s = self._site.now_s + RECOVERY_S
            self._site.outcome.changes.append(run.change)
            self._site.later(run.look_s, FleetEvent.LOOK, place)

    def _look(self, place: int) -> None:
        """Note what a job gets a while after a change of phase."""
        run = self._site.runs[place]
        if run.change is not None and run.look_s == self._site.now_s:
            run.change.later = self._site.share(place)

    def _step(self, place: int) -> None:
        """Change a service's load."""
        site = self._site
        run, state = site.runs[place], site.state
        if not np.isnan(site.outcome.finished_s[place]):
            return
        since = site.now_s - site.outcome.started_s[place]
        factor = [step.factor for step in run.job.steps if step.at_s <= since + 1e-9][-1]
        state.advance(np.array([place]), site.now_s)
        state.demand[place] = run.job.phases[run.phase].reference * factor
        self._reactions.on_load(place, factor)

    def _fail(self, node: int) -> None:
        """A node stops: replicas there are lost, and replaced where there is room."""
        hurt = []
        for place, run in enumerate(self._site.runs):
            if run.sizing is not None and any(one.node == node for one in run.sizing.replicas):
                hurt.append(place)
                for at in range(len(run.sizing.replicas) - 1, -1, -1):
                    if run.sizing.replicas[at].node == node:
                        run.sizing.remove(at)
                self._reactions.settle(self._site.replaced(run, place), (place,))
        cluster = self._site.ledger.cluster
        whole = Draw(
            DrawKind.REPLICA,
            f"failure of {cluster.nodes[node].name}",
            node,
            float(cluster.cores[node]),
            float(cluster.memory_gb[node]),
            np.zeros(len(SOURCES)),
        )
        self._site.ledger.take(whole)
        self._down[node] = whole
        self._reactions.on_loss(hurt)

    def _repair(self, node: int) -> None:
        """A node takes work again."""
        if node in self._down:
            self._site.ledger.release(self._down.pop(node))
        self._reactions.on_room()

    def _close(self) -> None:
        state, outcome = self._site.state, self._site.outcome
        state.advance(np.flatnonzero(state.running), self._site.now_s)
        outcome.take(state, np.array([job.arrival_s for job in self._site.scenario.jobs]))
