"""Event-driven simulation of a lined fleet under one manager.

What happens follows from `truth`. The manager sees its ledger and its predictions. The same rules hold for
all managers: 1. an application that a manager with a classification has not seen is measured first; 2. jobs
wait in lines and never move once they run; 3. scores of a job's next phase are known when the phase begins;
4. a node whose memory is used up runs slowly, and then the job furthest beyond its reservation is killed.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Final

import msgspec
import numpy as np

from kwiken.allocator.placement.headroom import SOURCE_CAUTION
from kwiken.allocator.placement.node_ledger import ROUNDING, NodeLedger
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Floats, Ints
from kwiken.model.nodes.nodes import Cluster
from papers.worlds.crowded.truth.law import left, processor_left
from papers.worlds.crowded.truth.programs import RESOURCES, STEEPNESS
from papers.worlds.crowded.truth.rules import Law
from papers.worlds.fleet.world import World
from papers.worlds.waiting import rules
from papers.worlds.waiting.lines.budgets import slack_s, waiting_budget_s
from papers.worlds.waiting.lines.lines import WaitingLines
from papers.worlds.waiting.lines.quality_classes import equal_classes
from papers.worlds.waiting.lines.settings import BudgetClock, LineSettings, LineStart, SlotOffer, WaitingJob
from papers.worlds.waiting.managers import LinedManager, Quality
from papers.worlds.waiting.outcome import LinedOutcome
from papers.worlds.waiting.qualities import LinedQualities
from papers.worlds.waiting.records import ChanceSamples, RunRecord
from papers.worlds.waiting.scenarios import LINED_SCENARIOS

NOWHERE: Final = -1
UNBOUNDED_GB: Final = 1e6  # memory of a node for a manager that does not look at memory
ENDLESS_S: Final = 1e9  # budget of jobs that take any node anyway
SCORED: Final = [name for name in SOURCES if not name.startswith("cpu-")]
OF_SCORED: Final = np.array([SCORED.index(name) for name in RESOURCES])
MEMORY: Final = SCORED.index("memory-capacity")
LOSS_OF_SCORE: Final = 0.05  # that the tolerated pressure costs, a share
MAX_CAUSED: Final = 0.4  # of the generator: the pressure on memory of an application that uses the most


# The law of losses is not the one that schedulers suppose: a resource costs something below the tolerated
# pressure too, up to a largest loss of its own, and the worst one counts (a law of the crowded world).
# Processors are shared in time, and memory that is used may exceed what is reserved.
class LinedTruth:
    """True behaviour of the applications of a world.

    Attributes:
        alone: (n, c) performance alone by class of the cluster, as a share of the best class.
    """

    def __init__(self, world: World) -> None:
        behaviour = world.truth
        rng = np.random.default_rng([world.seed, 38])
        shape = (len(behaviour.het), len(RESOURCES))
        self._max_loss = rng.uniform(rules.MAX_LOSS_FLOOR, rules.MAX_LOSS_CEILING, shape)
        self._tolerated = np.maximum(behaviour.tolerated[:, OF_SCORED], 1e-6)
        self._half = self._half_pressure()
        self._caused = behaviour.caused[:, OF_SCORED]
        self.alone: Floats = np.exp(behaviour.het)
        pressed = np.clip(behaviour.caused[:, MEMORY] / MAX_CAUSED, 0.0, 1.0)
        spread = rules.MAX_USED_MEMORY - rules.MIN_USED_MEMORY
        self.used_memory: Floats = rules.MIN_USED_MEMORY + spread * pressed

    def _half_pressure(self) -> Floats:
        """(n, r) pressure that costs half of the largest loss, so that the tolerated pressure costs 5%."""
        ratio = (self._max_loss - LOSS_OF_SCORE) / LOSS_OF_SCORE
        return np.asarray(self._tolerated * ratio ** (1 / STEEPNESS))

    def speeds(self, rows: Ints, node_class: int, cores: Floats, node_cores: float) -> Floats:
        """Performance of the residents of one node now, as shares of the best class alone.

        Args:
            rows: (k,) application of each resident.
            cores: (k,) number of cores that each reserves.
            node_cores: number of cores that the node has.
        """
        caused = self._caused[rows]
        pressure = np.maximum(caused.sum(axis=0) - caused, 0.0)
        kept = left(Law.WORST, pressure, self._max_loss[rows], self._half[rows], self._tolerated[rows])
        share = processor_left(np.array([cores.sum()]), np.array([node_cores]), rules.SWITCHING)
        return np.asarray(self.alone[rows, node_class] * kept * share[0])


class _Event(IntEnum):
    END = 0
    SHORT = 1
    JOIN = 2
    TEST = 3


@dataclass(eq=False)
class _LinedJob:
    """One job.

    Attributes:
        left: work that is left of the phase.
        version: number of the last change of its speed; older ends do not count.
    """

    left: float
    phase: int = 0
    since_s: float = 0.0
    speed: float = 0.0
    version: int = 0
    node: int = NOWHERE
    sizing: Sizing | None = None


class LinedSimulation:
    """One run of a world under a manager.

    Args:
        scenario: name of the world's scenario in `LINED_SCENARIOS`.
    """

    def __init__(self, world: World, scenario: str, manager: LinedManager) -> None:
        self._world, self._manager = world, manager
        self._truth = LinedTruth(world)
        jobs = world.scenario.jobs
        self._cluster = world.scenario.cluster
        self._ledger = NodeLedger(_sold(self._cluster, manager))
        self._inside, self._anywhere = manager.choosing()
        self._profiles = world.profiles(manager.knowledge)
        self._requests: dict[tuple[int, int], PlacementRequest] = {}
        self._qualities = LinedQualities(world, manager, LINED_SCENARIOS[scenario].platforms, self._ledger)
        test_s = LINED_SCENARIOS[scenario].test_s
        settings = LineSettings(
            rule=manager.rule,
            order=manager.order,
            clock=BudgetClock.REPORTED,
            look_ahead=manager.look_ahead,
            test_s=test_s,
            patience_s=ENDLESS_S,
        )
        classes = self._qualities.classes() if manager.waits else equal_classes(1)
        self._lines = WaitingLines(classes, settings)
        self._pool = np.full(len(self._cluster.nodes), NOWHERE)
        self._node_cores = self._cluster.cores
        self._cores = np.array([job.reserved.size.cores if job.reserved else 0.0 for job in jobs])
        self._memory_gb = np.array([job.reserved.size.memory_gb if job.reserved else 0.0 for job in jobs])
        self._alone_s = np.array(
            [math.fsum(phase.work / phase.reference for phase in job.phases) for job in jobs]
        )
        self._high = np.random.default_rng([world.seed, 63]).random(len(jobs)) < rules.HIGH
        self._jobs = [_LinedJob(job.phases[0].work) for job in jobs]
        self._residents: list[list[int]] = [[] for _ in self._cluster.nodes]
        self._short = np.zeros(len(self._cluster.nodes), dtype=np.bool_)
        self._waits: dict[str, int] = {}  # by arrival
        self._uncharged: list[int] = []
        self._seen: set[tuple[int, ...]] = set()
        self._samples = ChanceSamples()
        self._record = RunRecord.of(len(jobs))
        self._events: list[tuple[float, int, int, int, int]] = []
        self._order = itertools.count()
        self._now_s, self._test_s = 0.0, math.inf
        self._left = len(jobs)
        self._allocated = self._used = 0.0
        for place in range(len(jobs)):
            self._arrives(place)
        for node in range(len(self._cluster.nodes)):
            self._report(node)

    def run(self) -> LinedOutcome:
        """Run until every job has ended or was given up."""
        while self._events and self._left:
            self._now_s, kind, _, subject, version = heapq.heappop(self._events)
            event = _Event(kind)
            if event is _Event.END and version != self._jobs[subject].version:
                continue
            if event is _Event.TEST and self._now_s < self._test_s:
                continue
            self._happened(event, subject)
            self._advance()
        record, jobs = self._record, self._world.scenario.jobs
        return LinedOutcome(
            arrival_s=np.array([job.arrival_s for job in jobs]),
            started_s=record.started_s,
            finished_s=record.finished_s,
            alone_s=self._alone_s,
            charged_s=record.charged_s,
            measuring_s=record.measuring_s,
            late=record.late,
            down=record.down,
            up=record.up,
            high=self._high,
            kills=record.kills,
            cores=self._cores,
            series=np.array(record.series),
            capacity=float(self._node_cores.sum()),
            samples=tuple(self._samples.closed),
            busy_s=tuple(record.busy_s),
        )

    # Events

    def _later(self, at_s: float, event: _Event, subject: int, version: int = 0) -> None:
        heapq.heappush(self._events, (at_s, int(event), next(self._order), subject, version))

    def _arrives(self, place: int) -> None:
        """Note when a job joins its line: after its measurement, if its application is new."""
        job, rows = self._world.scenario.jobs[place], self._world.rows[place]
        knows = self._manager.scheduler != "least-loaded"
        new = knows and rows not in self._seen
        self._seen.add(rows)
        self._record.measuring_s[place] = rules.MEASURING_S if new else 0.0
        self._later(job.arrival_s + self._record.measuring_s[place], _Event.JOIN, place)

    def _happened(self, event: _Event, subject: int) -> None:
        match event:
            case _Event.JOIN:
                self._joins(subject)
            case _Event.END:
                self._phase_ends(subject)
            case _Event.SHORT:
                self._spare_memory(subject)
            case _Event.TEST:
                self._test_s = math.inf

    def _joins(self, place: int) -> None:
        record, again = self._record, self._record.kills[place] > 0
        budget_s = ENDLESS_S
        if self._manager.waits:
            measuring_s = float(record.measuring_s[place])
            alone_s = float(self._alone_s[place])
            budget_s = waiting_budget_s(alone_s, rules.LOSS, measuring_s) - float(record.charged_s[place])
            slack = slack_s(alone_s, rules.LOSS, measuring_s, self._manager.slack)
        else:
            slack = budget_s
        job = WaitingJob(
            name=_name(place),
            quality=self._qualities.of_job(self._request(place)),
            budget_s=0.0 if again and budget_s < 0 else budget_s,
            slack_s=slack,
            work_s=float(self._alone_s[place]),
            priority=int(self._high[place]) if self._manager.priorities else 0,
        )
        line = self._lines.arrive(job, self._now_s)
        self._waits[job.name] = place
        self._uncharged.append(place)
        # Only a job that finds its line empty and its pool without a slot waits for that pool alone.
        empty = self._lines.length(line) == 1 and not self._lines.free(line)
        if self._manager.waits and job.budget_s > 0 and empty:
            chance = partial(self._lines.chance, job.name)
            self._samples.note(job.name, line, job.budget_s, self._now_s, chance)

    def _phase_ends(self, place: int) -> None:
        job, phases = self._jobs[place], self._world.scenario.jobs[place].phases
        node = job.node
        if job.phase + 1 < len(phases):
            self._count(node)
            job.phase += 1
            job.left = phases[job.phase].work
            if job.sizing is not None:
                job.sizing.clear()
                job.sizing = Sizing(self._request(place), self._ledger)
                job.sizing.add(node, 0)
            self._settle(node)
            self._report(node)
            return
        started_s = float(self._record.started_s[place])
        self._leave(place)
        self._record.finished_s[place] = self._now_s
        self._record.busy_s.append(self._now_s - started_s)
        self._left -= 1
        quality, free = self._offer(node)
        self._lines.ended(_name(place), self._now_s, quality=quality, free=free)
        self._pool[node] = self._qualities.pool(quality, free)

    # Nodes

    def _request(self, place: int) -> PlacementRequest:
        """A job's present phase as the manager predicts it."""
        phase = self._jobs[place].phase
        if (place, phase) not in self._requests:
            workload = self._world.scenario.jobs[place].workload
            profile = self._profiles[place][phase]
            found = request_for(workload, profile, self._ledger.cluster, SOURCE_CAUTION)
            self._requests[place, phase] = replace(found, reserved=1)
        return self._requests[place, phase]

    def _offer(self, node: int) -> tuple[float, int]:
        """Quality that a node offers now, and its free slots."""
        cores = float(self._ledger.free_cores[node])
        free = max(1, int(cores // rules.TYPICAL_CORES)) if cores >= 1 - ROUNDING else 0
        return self._qualities.of_node(node), free

    def _report(self, node: int) -> None:
        quality, free = self._offer(node)
        self._lines.unit(self._cluster.nodes[node].name, quality, free, self._now_s)
        self._pool[node] = self._qualities.pool(quality, free)

    def _row(self, place: int) -> int:
        return self._world.rows[place][self._jobs[place].phase]

    def _count(self, node: int) -> None:
        """Count the work of a node's jobs up to now."""
        for place in self._residents[node]:
            job = self._jobs[place]
            job.left -= job.speed * (self._now_s - job.since_s)
            job.since_s = self._now_s

    def _settle(self, node: int) -> None:
        """Bring speeds and ends of a node's jobs up to date; their work has been counted."""
        places = self._residents[node]
        if not places:
            return
        rows = np.array([self._row(place) for place in places])
        cores = self._cores[places]
        node_class = int(self._cluster.class_of[node])
        speeds = self._truth.speeds(rows, node_class, cores, float(self._node_cores[node]))
        held_gb = self._used_gb(node)
        whole_gb = float(self._cluster.memory_gb[node])
        if held_gb > whole_gb:
            speeds = speeds * whole_gb / held_gb
            if not self._short[node]:
                self._short[node] = True
                self._later(self._now_s + rules.SHORT_OF_MEMORY_S, _Event.SHORT, node)
        for place, speed in zip(places, speeds.tolist(), strict=True):
            job = self._jobs[place]
            job.speed = speed
            job.version += 1
            self._later(self._now_s + max(job.left, 0.0) / speed, _Event.END, place, job.version)

    def _used_gb(self, node: int) -> float:
        return sum(
            float(self._memory_gb[place] * self._truth.used_memory[self._row(place)])
            for place in self._residents[node]
        )

    def _leave(self, place: int) -> None:
        job = self._jobs[place]
        node = job.node
        self._count(node)
        self._busy(node, -1)
        self._residents[node].remove(place)
        self._busy(node, 1)
        job.version += 1
        job.node = NOWHERE
        if job.sizing is not None:
            job.sizing.clear()
            job.sizing = None
        self._settle(node)

    def _busy(self, node: int, sign: int) -> None:
        """Take a node out of the sums of cores, or put it back."""
        cores = float(self._cores[self._residents[node]].sum()) if self._residents[node] else 0.0
        self._allocated += sign * cores
        self._used += sign * min(cores, float(self._node_cores[node]))

    def _spare_memory(self, node: int) -> None:
        """Kill the job furthest beyond its reservation if the node is still short of memory."""
        self._short[node] = False
        if self._used_gb(node) <= float(self._cluster.memory_gb[node]):
            return
        places = np.array(self._residents[node])
        rows = np.array([self._row(place) for place in places.tolist()])
        excess = self._memory_gb[places] * (self._truth.used_memory[rows] - 1)
        place = int(places[np.argmax(excess)])
        self._leave(place)
        self._lines.lost(_name(place), self._now_s)
        self._report(node)
        record, job = self._record, self._jobs[place]
        record.kills[place] += 1
        job.phase, job.left = 0, self._world.scenario.jobs[place].phases[0].work
        if record.kills[place] >= rules.MAX_KILLS:
            self._left -= 1
        else:
            self._later(self._now_s + rules.AGAIN_S, _Event.JOIN, place)

    # Lines

    def _advance(self) -> None:
        if self._manager.waits:
            self._charge()
            self._samples.close_free(self._lines.free, self._now_s)
        for start in self._lines.advance(self._now_s, self._find):
            self._starts(start)
        record = self._record
        record.series.append((self._now_s, self._allocated, self._used, float(self._lines.waiting)))
        due_s = self._lines.next_test_s()
        if due_s < self._test_s:
            self._test_s = max(due_s, self._now_s)
            self._later(self._test_s, _Event.TEST, 0)

    def _find(self, job: WaitingJob, pool: int | None) -> SlotOffer | None:
        place = self._waits[job.name]
        sizing = self._placed(place, pool)
        if not sizing.replicas:
            return None
        node = sizing.replicas[0].node
        started = self._jobs[place]
        started.sizing, started.node, started.since_s = sizing, node, self._now_s
        self._count(node)
        self._busy(node, -1)
        self._residents[node].append(place)
        self._busy(node, 1)
        self._settle(node)
        quality, free = self._offer(node)
        self._pool[node] = self._qualities.pool(quality, free)
        return SlotOffer(self._cluster.nodes[node].name, quality, free)

    def _placed(self, place: int, pool: int | None) -> Sizing:
        """A job on a node of a pool, or on any where its budget is spent or its manager does not wait."""
        request, manager = self._request(place), self._manager
        if pool is None or not manager.waits:
            sizing = Sizing(request, self._ledger)
            self._anywhere.place(sizing)
            return sizing
        allowed = self._pool == pool
        if manager.quality is Quality.SUITABLE:
            allowed &= self._qualities.suits(request)
        sizing = Sizing(request, self._ledger, allowed)
        self._inside.place(sizing)
        return sizing

    def _starts(self, start: LineStart) -> None:
        place, record = self._waits.pop(start.job), self._record
        if place in self._uncharged:
            self._uncharged.remove(place)
        if np.isnan(record.started_s[place]):
            record.started_s[place] = self._now_s
        if self._manager.waits:
            record.charged_s[place] += start.charged_s
            record.late[place] |= start.late
            record.down[place] |= any(move.to_line > move.from_line for move in start.moves)
            record.up[place] |= any(move.to_line < move.from_line for move in start.moves)
        self._samples.close(start.job, math.inf, self._now_s)

    def _charge(self) -> None:
        """Start the clocks of the jobs that order of arrival would have given room by now."""
        if not self._uncharged:
            return
        free_cores, free_gb = self._ledger.free_cores.copy(), self._ledger.free_memory_gb.copy()
        uncharged = set(self._uncharged)
        for name, place in self._waits.items():
            request = self._request(place)
            cores, memory_gb = float(request.all_cores[0]), float(request.memory_gb[0])
            room = np.flatnonzero((free_cores >= cores - ROUNDING) & (free_gb >= memory_gb - ROUNDING))
            if room.size:
                node = int(room[np.argmin(free_cores[room])])
                free_cores[node] -= cores
                free_gb[node] -= memory_gb
                if place in uncharged:
                    self._lines.charge(name, self._now_s)
                    self._uncharged.remove(place)
            elif place in uncharged:
                return


def _name(place: int) -> str:
    return f"job-{place}"


def _sold(cluster: Cluster, manager: LinedManager) -> Cluster:
    """Cluster that a manager sees: what it sells of each node."""
    classes = tuple(
        msgspec.structs.replace(
            one,
            cores=manager.oversold * one.cores,
            memory_gb=UNBOUNDED_GB if manager.blind else one.memory_gb,
        )
        for one in cluster.classes
    )
    return Cluster(classes, cluster.nodes)
