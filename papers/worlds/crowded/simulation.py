"""Event-driven simulation of a crowded world under one manager.

What happens follows from `truth`. The manager sees its ledger of what is sold, its predictions, and noisy
observations. The same rules hold for all managers: 1. jobs wait in order of arrival; 2. a program that a
manager with a classification has not seen takes a profiling set for a minute first; 3. an alarm is three
samples in a row below 90% of what is expected; 4. a move stands still, and the next one waits.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.workload import Target, Workload
from kwiken.base.arrays import Floats, Ints
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass
from papers.worlds.crowded.knowledge import ProgramProfiles, unknown_profile
from papers.worlds.crowded.managers import CrowdedManager
from papers.worlds.crowded.truth.draw import CrowdedWorld
from papers.worlds.crowded.truth.nodes import NOWHERE, CrowdedNodes
from papers.worlds.crowded.truth.rules import (
    BASE_OVER_PEAK,
    BUSY_CONCENTRATION,
    KILL_WAIT_S,
    LEVEL_S,
    MAX_KILLS,
    MOVE_S,
    MOVE_S_PER_GB,
    NODES_OF_TYPE,
    SAMPLE_S,
    SOLD_MEMORY,
    START_S,
    START_S_PER_GB,
)

SAMPLES_OF_ALARM: Final = 3  # in a row: 30 s (Paragon section 3.9)
DEVIATION: Final = 0.10  # by which a sample is below what is expected (Paragon section 3.9)
COOL_DOWN_S: Final = 300.0  # between two actions for one job
MIN_GAIN: Final = 0.05  # share of performance that a move must be expected to win
MIN_LESS_LOAD: Final = (
    0.10  # share of its cores by which the new node is less sold, where nothing is predicted
)
KEPT: Final = 0.95  # of the performance alone on the best machine type, from which quality counts as kept
SEVERE: Final = 0.80


@dataclass(frozen=True, eq=False)
class CrowdedOutcome:
    """Results of one run.

    Attributes:
        arrival_s: (j,) times of arrival, in seconds.
        ran_s: (j,) times from which a job ran first; NaN for never, in seconds.
        finished_s: (j,) times of the end; NaN for jobs that were given up, in seconds.
        alone_s: (j,) duration alone on the best machine type, in seconds.
        kills: (j,) how often a job was killed for want of memory.
        moves: (j,) how often a job was moved.
        looks: number of looks at programs during the run.
        used: share of all cores that were busy while jobs arrived.
    """

    arrival_s: Floats
    ran_s: Floats
    finished_s: Floats
    alone_s: Floats
    kills: Ints
    moves: Ints
    looks: int
    used: float

    def summary(self) -> dict[str, float]:
        """Figures by name, defined in docs/allocate/crowded.md; a job that was given up counts 0."""
        done = np.isfinite(self.finished_s)
        with np.errstate(invalid="ignore"):
            got = np.where(done, self.alone_s / (self.finished_s - self.ran_s), 0.0)
            whole = np.where(done, self.alone_s / (self.finished_s - self.arrival_s), 0.0)
        return {
            "mean performance, %": 100 * float(got.mean()),
            "QoS kept, %": 100 * float((got >= KEPT).mean()),
            "loss above 20%, %": 100 * float((got < SEVERE).mean()),
            "mean performance from arrival, %": 100 * float(whole.mean()),
            "cores used, %": 100 * self.used,
            "mean wait, s": float(np.nanmean(self.ran_s - self.arrival_s)),
            "kills": float(self.kills.sum()),
            "moves": float(self.moves.sum()),
            "looks": float(self.looks),
            "given up": float((~done).sum()),
        }


class _Event(IntEnum):
    LOOKED = 0
    RUN = 1
    PEAK = 2
    LEVEL = 3
    END = 4
    ARRIVAL = 5
    SAMPLE = 6


@dataclass(eq=False)
class _JobState:
    """One job, as its manager sees it, and its place among the events.

    Attributes:
        left_s: work that is left, in seconds alone on the best type.
        since_s: moment up to which work is counted.
        version: number of the last change of its speed; older ends do not count.
        expected: performance that the manager expects now; NaN while it takes its first samples.
        factor: by what the manager corrects its predictions for this job.
        looking: whether it waits for a second look at its program, while it runs.
        peak_s: moment at which its memory rises, unless it is killed before.
    """

    rng: np.random.Generator
    left_s: float
    since_s: float = 0.0
    version: int = 0
    starts: int = 0
    sizing: Sizing | None = None
    expected: float = math.nan
    first: tuple[float, ...] = ()
    low: int = 0
    calm_s: float = -math.inf
    factor: float = 1.0
    looking: bool = False
    peak_s: float = math.inf
    recent: tuple[float, ...] = ()


class CrowdedSimulation:
    """One run of a world under a manager.

    Args:
        name: name of the manager, which seeds its chance.
    """

    def __init__(self, world: CrowdedWorld, manager: CrowdedManager, name: str) -> None:
        self._world, self._manager = world, manager
        placing = name.removesuffix(", following")
        rng = np.random.default_rng([world.seed, *placing.encode()])
        self._knowledge = None if manager.insight is None else ProgramProfiles(world, manager.insight, rng)
        self._noise = rng
        type_of = np.repeat(np.arange(len(world.machines.names)), NODES_OF_TYPE)
        if self._knowledge is not None:  # nodes of profiling sets take no jobs
            for kind in np.tile(self._knowledge.set_types, world.rules.sets).tolist():
                type_of = np.delete(type_of, np.flatnonzero(type_of == kind)[0])
        self._nodes = CrowdedNodes(world, type_of)
        self._cluster = _cluster(world, type_of)
        self._ledger = NodeLedger(self._cluster)
        self._use: Floats = np.zeros(len(type_of))
        self._scheduler = manager.built(rng, world.seed, lambda: self._use)
        jobs = world.jobs
        self._jobs = [
            _JobState(np.random.default_rng([world.seed, place]), left_s)
            for place, left_s in enumerate(jobs.alone_s.tolist())
        ]
        count = len(self._jobs)
        self._looks = world.profiled.copy()  # by program
        self._waiting_for_look: dict[int, list[int]] = {}
        self._sets_free = max(world.rules.sets, 1)
        self._to_look: deque[int] = deque()
        self._line: deque[int] = deque()
        self._requests: dict[tuple[int, int], PlacementRequest] = {}
        self._events: list[tuple[float, int, int, int, int]] = []
        self._order = itertools.count()
        self._now_s = 0.0
        self._open = count
        self._busy_core_s = 0.0
        self._new_looks = 0
        self._ran_s, self._finished_s = np.full(count, np.nan), np.full(count, np.nan)
        self._kills, self._moves = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        for place, at_s in enumerate(jobs.arrival_s.tolist()):
            self._later(at_s, _Event.ARRIVAL, place)
        self._later(SAMPLE_S, _Event.SAMPLE, 0)

    def run(self) -> CrowdedOutcome:
        """Run until every job has ended or was given up."""
        jobs = self._world.jobs
        while self._events and self._open:
            self._now_s, event, _, subject, version = heapq.heappop(self._events)
            self._happened(_Event(event), subject, version)
        span_s = float(jobs.arrival_s[-1]) if len(jobs.arrival_s) else 0.0
        cores = float(self._world.machines.cores.sum()) * NODES_OF_TYPE
        return CrowdedOutcome(
            arrival_s=jobs.arrival_s,
            ran_s=self._ran_s,
            finished_s=self._finished_s,
            alone_s=jobs.alone_s,
            kills=self._kills,
            moves=self._moves,
            looks=self._new_looks,
            used=self._busy_core_s / (cores * span_s) if span_s > 0 else 0.0,
        )

    def _later(self, at_s: float, event: _Event, subject: int, version: int = 0) -> None:
        heapq.heappush(self._events, (at_s, int(event), next(self._order), subject, version))

    def _happened(self, event: _Event, subject: int, version: int) -> None:
        match event:
            case _Event.ARRIVAL:
                self._arrived(subject)
            case _Event.LOOKED:
                self._looked(subject)
            case _Event.SAMPLE:
                self._sample()
            case _Event.END:
                if version == self._jobs[subject].version:
                    self._ended(subject)
            case _ if version == self._jobs[subject].starts and self._nodes.node[subject] != NOWHERE:
                self._of_job(event, subject)

    def _of_job(self, event: _Event, place: int) -> None:
        """A job starts to run, reaches its peak of memory, or keeps another share of its cores busy."""
        nodes, node, job = self._nodes, int(self._nodes.node[place]), self._jobs[place]
        program = int(self._world.jobs.program[place])
        if event is _Event.RUN:
            self._ran_s[place] = np.nanmin((self._ran_s[place], self._now_s))
            job.since_s = self._now_s
            nodes.running[place] = True
        elif event is _Event.PEAK:
            nodes.memory_gb[place] = self._world.programs.peak_gb[program]
        else:
            mean = float(self._world.programs.busy[program])
            shape = BUSY_CONCENTRATION
            nodes.busy[place] = job.rng.beta(shape * mean, shape * (1 - mean))
            self._later(self._now_s + job.rng.exponential(LEVEL_S), _Event.LEVEL, place, job.starts)
        self._settle(node)
        self._spare_memory(node)

    # Looks, waiting and placement

    def _arrived(self, place: int) -> None:
        program = int(self._world.jobs.program[place])
        if self._knowledge is None or self._looks[program]:
            self._line.append(place)
            self._admit()
        else:
            self._ask_for_look(program, place)

    def _ask_for_look(self, program: int, place: int) -> None:
        """Take a profiling set for a program, or wait for one; jobs of the same program wait together."""
        waiting = self._waiting_for_look.setdefault(program, [])
        waiting.append(place)
        if len(waiting) == 1:
            self._to_look.append(program)
            self._begin_looks()

    def _begin_looks(self) -> None:
        while self._to_look and self._sets_free:
            self._sets_free -= 1
            self._later(self._now_s + self._world.rules.profile_s, _Event.LOOKED, self._to_look.popleft())

    def _looked(self, program: int) -> None:
        """A program is known better: its jobs are placed, or are acted for if they run."""
        self._looks[program] = min(2, self._looks[program] + 1)
        self._new_looks += 1
        self._sets_free += 1
        for place in self._waiting_for_look.pop(program):
            if self._jobs[place].looking:
                self._jobs[place].looking = False
                self._act(place)
            else:
                self._line.append(place)
        self._begin_looks()
        self._admit()

    def _request(self, place: int) -> PlacementRequest:
        """A job as its manager predicts it now."""
        program = int(self._world.jobs.program[place])
        look = max(0, int(self._looks[program]) - 1)
        if (program, look) not in self._requests:
            programs, insight = self._world.programs, self._knowledge
            memory_gb = float(programs.memory_gb[program])
            profile = (
                unknown_profile(self._world, program) if insight is None else insight.profile(program, look)
            )
            workload = Workload(
                name=profile.name, memory_gb=memory_gb, target=Target(ips=KEPT), max_replicas=1
            )
            self._requests[program, look] = replace(
                request_for(workload, profile, self._cluster, self._manager.caution), reserved=1
            )
        return self._requests[program, look]

    def _admit(self) -> None:
        while self._line and self._start(self._line[0]):
            self._line.popleft()

    def _start(self, place: int) -> bool:
        sizing = Sizing(self._request(place), self._ledger)
        self._scheduler.place(sizing)
        if not sizing.replicas:
            return False
        job, program = self._jobs[place], int(self._world.jobs.program[place])
        job.starts += 1
        self._put(place, sizing)
        memory_gb = float(self._world.programs.memory_gb[program])
        runs_s = self._now_s + START_S + START_S_PER_GB * memory_gb
        peak_s = float(self._world.programs.peak_at[program] * self._world.jobs.alone_s[place])
        self._later(runs_s, _Event.RUN, place, job.starts)
        job.peak_s = runs_s + peak_s
        self._later(job.peak_s, _Event.PEAK, place, job.starts)
        self._later(runs_s + job.rng.exponential(LEVEL_S), _Event.LEVEL, place, job.starts)
        return True

    def _put(self, place: int, sizing: Sizing) -> None:
        """Note where a job is, and what is expected of it there."""
        job, node = self._jobs[place], sizing.replicas[0].node
        job.sizing, job.low, job.first, job.recent = sizing, 0, (), ()
        job.expected = math.nan
        if self._knowledge is not None:
            job.expected = job.factor * sizing.performance()
        self._nodes.put(place, node)
        self._settle(node)
        self._spare_memory(node)

    # What is so

    def _settle(self, node: int) -> None:
        """Count the work of a node's jobs up to now, and bring speeds and ends up to date."""
        nodes = self._nodes
        for place in nodes.residents(node).tolist():
            self._count(place)
        for place in nodes.settle(node).tolist():
            job, speed = self._jobs[place], float(nodes.speed[place])
            job.version += 1
            if speed > 0:
                self._later(self._now_s + max(job.left_s, 0.0) / speed, _Event.END, place, job.version)

    def _count(self, place: int) -> None:
        job = self._jobs[place]
        job.left_s -= float(self._nodes.speed[place]) * (self._now_s - job.since_s)
        job.since_s = self._now_s

    def _leave(self, place: int) -> None:
        job = self._jobs[place]
        self._count(place)
        job.version += 1
        node = self._nodes.take(place)
        if job.sizing is not None:
            job.sizing.clear()
            job.sizing = None
        self._settle(node)

    def _ended(self, place: int) -> None:
        self._leave(place)
        self._finished_s[place] = self._now_s
        self._open -= 1
        self._admit()

    def _spare_memory(self, node: int) -> None:
        """Kill the jobs with the most memory until the node has enough; they begin anew."""
        while (place := self._nodes.most_memory(node)) is not None:
            job = self._jobs[place]
            self._leave(place)
            self._kills[place] += 1
            job.left_s = float(self._world.jobs.alone_s[place])
            job.starts += 1
            program = int(self._world.jobs.program[place])
            self._nodes.memory_gb[place] = BASE_OVER_PEAK * self._world.programs.peak_gb[program]
            if self._kills[place] >= MAX_KILLS:
                self._open -= 1
            else:
                self._later(self._now_s + KILL_WAIT_S, _Event.ARRIVAL, place)

    # After placement

    def _sample(self) -> None:
        """Observe every node and job, act on alarms, and place what waits."""
        nodes, span_s = self._nodes, float(self._world.jobs.arrival_s[-1])
        processor, memory = nodes.used(np.arange(len(nodes.type_of)))
        noise = self._world.rules.noise
        larger = np.maximum(processor, memory)
        self._use = larger * np.exp(self._noise.normal(0, noise, len(larger)))
        if self._now_s <= span_s:
            cores = self._world.machines.cores[nodes.type_of]
            self._busy_core_s += SAMPLE_S * float(processor @ cores)
        if self._manager.follows:
            running = np.flatnonzero(nodes.running)
            seen = nodes.speed[running] * np.exp(self._noise.normal(0, noise, len(running)))
            for place, speed in zip(running.tolist(), seen.tolist(), strict=True):
                self._watch(place, speed)
        self._admit()
        self._later(self._now_s + SAMPLE_S, _Event.SAMPLE, 0)

    def _watch(self, place: int, speed: float) -> None:
        """Compare a sample with what is expected; three low ones in a row are an alarm."""
        job = self._jobs[place]
        job.recent = (*job.recent, speed)[-SAMPLES_OF_ALARM:]
        if math.isnan(job.expected):  # without predictions, the first samples on a node are what is expected
            job.first = (*job.first, speed)
            if len(job.first) == SAMPLES_OF_ALARM:
                job.expected = sum(job.first) / len(job.first)
            return
        job.low = job.low + 1 if speed < (1 - DEVIATION) * job.expected else 0
        if job.low < SAMPLES_OF_ALARM or self._now_s < job.calm_s or job.looking:
            return
        program = int(self._world.jobs.program[place])
        if self._knowledge is not None and self._looks[program] == 1:
            job.looking = True
            self._ask_for_look(program, place)
        else:
            self._act(place)

    def _act(self, place: int) -> None:
        """Move a job that gets less than expected, if another node is expected to give more."""
        job, nodes = self._jobs[place], self._nodes
        if job.sizing is None or not nodes.running[place] or not job.recent:
            return
        job.calm_s, job.low = self._now_s + COOL_DOWN_S, 0
        before, node = job.sizing, int(nodes.node[place])
        observed = sum(job.recent) / len(job.recent)
        size = before.replicas[0].size
        request = self._request(place)
        if self._knowledge is not None:
            # One observation cannot tell an error of the program from one of the place: half of it counts.
            before.renew(request)
            before.refresh()
            foreseen = before.performance()
            job.factor = min(1.0, math.sqrt(observed / foreseen)) if foreseen > 0 else 1.0
        sold_here = self._sold(node)
        before.clear()
        trial = Sizing(request, self._ledger)
        self._scheduler.place(trial)
        there = trial.replicas[0].node if trial.replicas else node
        if self._knowledge is not None:
            better = job.factor * trial.performance() > (1 + MIN_GAIN) * observed
        else:
            better = self._sold(there) <= sold_here - MIN_LESS_LOAD
        if there == node or not better:
            trial.clear()
            trial = Sizing(request, self._ledger)
            trial.add(node, size)
            job.sizing = trial
            job.expected = observed
            return
        self._count(place)
        nodes.take(place)
        self._settle(node)
        job.sizing = None
        self._moves[place] += 1
        job.starts += 1
        self._put(place, trial)
        program = int(self._world.jobs.program[place])
        stands_s = MOVE_S + MOVE_S_PER_GB * float(self._world.programs.memory_gb[program])
        self._later(self._now_s + stands_s, _Event.RUN, place, job.starts)
        if job.peak_s > self._now_s:
            self._later(job.peak_s, _Event.PEAK, place, job.starts)
        self._later(self._now_s + job.rng.exponential(LEVEL_S), _Event.LEVEL, place, job.starts)

    def _sold(self, node: int) -> float:
        """Share of what a node sells of cores that is sold."""
        return 1.0 - float(self._ledger.free_cores[node] / self._cluster.cores[node])


def _cluster(world: CrowdedWorld, type_of: Ints) -> Cluster:
    """Cluster that managers see: a node sells more cores and memory than it has."""
    machines = world.machines
    classes = tuple(
        NodeClass(name=name, cores=world.rules.sold_cores * cores, memory_gb=SOLD_MEMORY * memory_gb)
        for name, cores, memory_gb in zip(
            machines.names, machines.cores.tolist(), machines.memory_gb.tolist(), strict=True
        )
    )
    return Cluster(classes, tuple(Node(f"node-{n}", machines.names[kind]) for n, kind in enumerate(type_of)))
