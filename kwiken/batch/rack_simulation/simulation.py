"""Jobs on racks with slots and flows in one event loop.

A stage's tasks start in groups, one for each rack and moment. A group holds its slots while it fetches, then
computes for the time of one task. Flows of a group are those between two racks; what stays within a rack is
limited by the tasks' own bandwidth alone.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.batch.rack_simulation.schedulers import JobPlace, JobScheduler
from kwiken.batch.racks.response import RackHardware, RackJob

ALMOST: Final = 1.0 + 1e-9  # shares that differ by less are equal
MIN_SHARE: Final = 1e-9  # of a link, below which it counts as full


class FlowTable:
    """Flows that run, as columns: from which rack to which, what is left, and how many tasks fetch by it."""

    def __init__(self) -> None:
        self.source: Ints = np.zeros(0, dtype=np.int64)
        self.target: Ints = np.zeros(0, dtype=np.int64)
        self.left: Floats = np.zeros(0)
        self.weight: Floats = np.zeros(0)
        self.group: Ints = np.zeros(0, dtype=np.int64)
        self.coflow: Ints = np.zeros(0, dtype=np.int64)
        self.rate: Floats = np.zeros(0)

    def __len__(self) -> int:
        return len(self.left)

    def add(self, source: Ints, target: int, left: Floats, *, weight: float, group: int, coflow: int) -> None:
        """Add flows of one group of tasks.

        Args:
            source: (n,) racks that the bytes come from.
            target: rack of the tasks.
            left: (n,) bytes of each flow.
            weight: number of tasks that fetch, by which the flows share links.
            group: number of the group of tasks.
            coflow: number of the stage, whose flows end together for a scheduler of coflows.
        """
        count = len(left)
        self.source = np.concatenate([self.source, source])
        self.target = np.concatenate([self.target, np.full(count, target)])
        self.left = np.concatenate([self.left, left])
        self.weight = np.concatenate([self.weight, np.full(count, weight)])
        self.group = np.concatenate([self.group, np.full(count, group)])
        self.coflow = np.concatenate([self.coflow, np.full(count, coflow)])

    def keep(self, kept: Bools) -> None:
        """Drop all other flows."""
        for name in ("source", "target", "left", "weight", "group", "coflow"):
            setattr(self, name, getattr(self, name)[kept])


def max_min_rates(flows: FlowTable, links: Floats, task_bytes_per_s: float) -> Floats:
    """Weighted max-min fair rates: TCP with one connection for each task that fetches.

    A flow crosses the uplink of its source and the downlink of its target, and has at most its tasks' own
    bandwidth. In each round all links and flows that are the tightest among their neighbours are settled, so
    that few rounds are needed.

    Args:
        links: (2 R,) bandwidth of the uplinks, then of the downlinks, bytes per second.
        task_bytes_per_s: most that one task fetches, bytes per second.
    """
    racks = len(links) // 2
    up, down, weight = flows.source, flows.target + racks, flows.weight
    rates = np.zeros(len(flows))
    left = links.astype(np.float64).copy()
    running = np.arange(len(flows))
    while len(running):
        u, d, w = up[running], down[running], weight[running]
        demand = np.bincount(u, weights=w, minlength=2 * racks) + np.bincount(
            d, weights=w, minlength=2 * racks
        )
        share = np.divide(left, demand, out=np.full(2 * racks, np.inf), where=demand > 0)
        own = np.minimum(np.minimum(share[u], share[d]), task_bytes_per_s)
        # Smallest share of any flow of each link: a link whose own share it is settles all its flows.
        least = np.full(2 * racks, np.inf)
        np.minimum.at(least, u, own)
        np.minimum.at(least, d, own)
        tight = share <= least * ALMOST
        settled = tight[u] | tight[d] | (own >= task_bytes_per_s)
        if not settled.any():
            settled[:] = True
        rate = own[settled] * w[settled]
        rates[running[settled]] = rate
        left -= np.bincount(u[settled], weights=rate, minlength=2 * racks)
        left -= np.bincount(d[settled], weights=rate, minlength=2 * racks)
        np.maximum(left, 0.0, out=left)
        running = running[~settled]
    return rates


Rates = Callable[[FlowTable, Floats, float], Floats]
MIN_RATE: Final = 1e-6  # of a flow, bytes per second; less is standing still
MIN_BYTES: Final = 1.0  # of a flow; less counts as fetched


@dataclass(frozen=True, eq=False)
class RacksOutcome:
    """Outcome of the jobs of a run.

    Attributes:
        ends_s: (J,) end of each job, seconds.
        arrivals_s: (J,) arrival of each job, seconds.
        crossing_bytes: bytes that crossed the core.
        slot_s: time for which tasks held slots, slot-seconds.
        reduce_s: times of the tasks that fetch a shuffle, one entry a group, seconds.
        reduce_tasks: number of tasks of each of these groups.
        greatest_load: largest share of all slots in use at once.
    """

    ends_s: Floats
    arrivals_s: Floats
    crossing_bytes: float
    slot_s: float
    reduce_s: Floats
    reduce_tasks: Floats
    greatest_load: float

    @property
    def makespan_s(self) -> float:
        """Time from the first arrival to the last end, seconds."""
        return float(self.ends_s.max() - self.arrivals_s.min())

    @property
    def completion_s(self) -> Floats:
        """(J,) time from arrival to end of each job, seconds."""
        return self.ends_s - self.arrivals_s


@dataclass
class _Stage:
    job: int
    index: int
    pending: int
    running: int = 0
    ran: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    fetched: Floats = field(default_factory=lambda: np.zeros(0))  # bytes a task by source rack
    waits_for: int = 0


@dataclass
class _Group:
    stage: _Stage
    rack: int
    tasks: int
    started_s: float
    fetch_s: float  # within the rack
    flows: int


class _Simulation:
    def __init__(
        self,
        jobs: Sequence[RackJob],
        racks: int,
        rack: RackHardware,
        scheduler: JobScheduler,
        rates: Rates,
        chance: np.random.Generator,
        grain_s: float,
    ) -> None:
        self.jobs, self.racks, self.rack = jobs, racks, rack
        self.scheduler, self.rates, self.chance, self.grain_s = scheduler, rates, chance, grain_s
        self.free: Ints = np.full(racks, rack.slots, dtype=np.int64)
        self.links: Floats = np.full(2 * racks, rack.uplink_bytes_per_s)
        self.task_bytes_per_s = rack.machines * rack.nic_bytes_per_s / rack.slots
        self.flows = FlowTable()
        self.places: list[JobPlace | None] = [None] * len(jobs)
        self.stages = [self._stages_of(number) for number in range(len(jobs))]
        self.stages_left = [len(job.stages) for job in jobs]
        self.ends_s = np.zeros(len(jobs))
        self.groups: dict[int, _Group] = {}
        self.waiting: list[tuple[tuple[float, ...], int, int]] = []
        self.computing: list[tuple[float, int]] = []
        self.number = 0
        self.crossing = self.slot_s = 0.0
        self.greatest = 0
        self.reduces: list[tuple[float, int]] = []

    def _stages_of(self, number: int) -> list[_Stage]:
        return [
            _Stage(number, index, max(1, stage.tasks), waits_for=len(set(stage.parents)))
            for index, stage in enumerate(self.jobs[number].stages)
        ]

    def run(self) -> RacksOutcome:
        arrivals = [job.arrival_s for job in self.jobs]
        coming = np.argsort(arrivals, kind="stable").tolist()[::-1]
        now = 0.0
        changed = False
        while True:
            if changed and len(self.flows):
                self.flows.rate = self.rates(self.flows, self.links, self.task_bytes_per_s)
            next_s = [arrivals[coming[-1]]] if coming else []
            next_s += [self.computing[0][0]] if self.computing else []
            if len(self.flows):
                ends = np.divide(
                    self.flows.left,
                    self.flows.rate,
                    out=np.full(len(self.flows), np.inf),
                    where=self.flows.rate > MIN_RATE,
                )
                next_s.append(now + float(ends.min()))
            if not next_s or not np.isfinite(min(next_s)):
                break
            later = min(next_s) + self.grain_s
            changed = self._advance(later - now, later)
            now = later
            while coming and arrivals[coming[-1]] <= now:
                self._arrive(coming.pop(), now)
            while self.computing and self.computing[0][0] <= now:
                end_s, number = heappop(self.computing)
                group = self.groups.pop(number)
                self._end(group, max(end_s, group.started_s))
            changed |= self._start(now)
            self.greatest = max(self.greatest, self.racks * self.rack.slots - int(self.free.sum()))
        return RacksOutcome(
            ends_s=self.ends_s,
            arrivals_s=np.array(arrivals),
            crossing_bytes=self.crossing,
            slot_s=self.slot_s,
            reduce_s=np.array([took for took, _ in self.reduces]),
            reduce_tasks=np.array([tasks for _, tasks in self.reduces], dtype=np.float64),
            greatest_load=self.greatest / (self.racks * self.rack.slots),
        )

    def _advance(self, seconds: float, now: float) -> bool:
        """Move all flows on, and let groups whose flows have ended compute; whether a flow ended."""
        flows = self.flows
        if not len(flows):
            return False
        flows.left = flows.left - flows.rate * seconds
        done = flows.left <= MIN_BYTES
        if not done.any():
            return False
        for number, count in zip(*np.unique(flows.group[done], return_counts=True), strict=True):
            group = self.groups[int(number)]
            group.flows -= int(count)
            if not group.flows:
                self._compute(int(number), group, now)
        flows.keep(~done)
        flows.rate = flows.rate[~done]
        return True

    def _compute(self, number: int, group: _Group, now: float) -> None:
        task_s = self.jobs[group.stage.job].stages[group.stage.index].task_s
        ready = max(now, group.started_s + group.fetch_s)
        heappush(self.computing, (ready + task_s, number))

    def _arrive(self, number: int, now: float) -> None:
        running = self.rack.slots - self.free
        self.places[number] = self.scheduler.place(self.jobs[number], self.racks, running, self.chance)
        if not self.jobs[number].stages:
            self.ends_s[number] = now
        for stage in self.stages[number]:
            stage.ran = np.zeros(self.racks, dtype=np.int64)
            if not stage.waits_for:
                self._release(stage)

    def _release(self, stage: _Stage) -> None:
        """Let a stage wait for slots; where its bytes come from is known now."""
        job, place = self.jobs[stage.job], self.places[stage.job]
        assert place is not None
        told = job.stages[stage.index]
        stage.fetched = np.zeros(self.racks)
        if told.parents and told.shuffled_bytes:
            ran = np.zeros(self.racks)
            for parent in told.parents:
                ran += self.stages[stage.job][parent].ran
            stage.fetched = told.shuffled_bytes / stage.pending * ran / max(1.0, float(ran.sum()))
        elif not told.parents and place.remote_share:
            readers = sum(1 for each in job.stages if not each.parents)
            bytes_a_task = job.input_bytes * place.remote_share / readers / stage.pending
            others = np.ones(self.racks)
            if place.racks is not None and len(place.racks) < self.racks:
                others[place.racks] = 0.0
            stage.fetched = bytes_a_task * others / others.sum()
        insort(self.waiting, (place.rank, stage.job, stage.index))

    def _start(self, now: float) -> bool:
        """Give free slots to waiting stages by rank; whether flows were added."""
        added = False
        total = int(self.free.sum())
        done: list[int] = []
        shared = self._fair_shares(total)
        for position, (_, number, index) in enumerate(self.waiting):
            if total <= 0:
                break
            stage, place = self.stages[number][index], self.places[number]
            assert place is not None
            free = self.free
            if place.racks is not None:
                free = np.zeros(self.racks, dtype=np.int64)
                free[place.racks] = self.free[place.racks]
            shares = _spread(min(stage.pending, shared.get(position, stage.pending)), free)
            for rack in np.flatnonzero(shares).tolist():
                tasks = int(shares[rack])
                added |= self._start_group(stage, rack, tasks, now)
                total -= tasks
            if not stage.pending:
                done.append(position)
        for position in reversed(done):
            del self.waiting[position]
        return added

    def _fair_shares(self, total: int) -> dict[int, int]:
        """Most tasks to start of each waiting stage of fair jobs, by position; free slots fill a level."""
        entries = [
            (position, number, self.stages[number][index])
            for position, (_, number, index) in enumerate(self.waiting)
            if (place := self.places[number]) is not None and place.fair
        ]
        if not entries:
            return {}
        used = np.array([sum(each.running for each in self.stages[number]) for _, number, _ in entries])
        pending = np.array([stage.pending for _, _, stage in entries])
        low, high = 0, int((used + pending).max())
        while low < high:  # the highest level that the free slots fill
            level = (low + high + 1) // 2
            fits = int(np.clip(level - used, 0, pending).sum()) <= total
            low, high = (level, high) if fits else (low, level - 1)
        given = np.clip(low - used, 0, pending)
        left = total - int(given.sum())
        given[np.flatnonzero((used + given <= low) & (given < pending))[:left]] += 1
        return {position: int(most) for (position, _, _), most in zip(entries, given, strict=True)}

    def _start_group(self, stage: _Stage, rack: int, tasks: int, now: float) -> bool:
        stage.pending -= tasks
        stage.running += tasks
        self.free[rack] -= tasks
        fetched = stage.fetched
        crossing = fetched * tasks
        crossing[rack] = 0.0
        sources = np.flatnonzero(crossing > MIN_BYTES)
        number, self.number = self.number, self.number + 1
        fetch_s = float(fetched.sum()) / self.task_bytes_per_s
        group = _Group(stage, rack, tasks, now, fetch_s, len(sources))
        self.groups[number] = group
        if not len(sources):
            self._compute(number, group, now)
            return False
        self.crossing += float(crossing[sources].sum())
        coflow = stage.job * MAX_STAGES_OF_A_JOB + stage.index
        self.flows.add(sources, rack, crossing[sources], weight=tasks, group=number, coflow=coflow)
        self.flows.rate = np.concatenate([self.flows.rate, np.zeros(len(sources))])
        return True

    def _end(self, group: _Group, now: float) -> None:
        stage = group.stage
        self.free[group.rack] += group.tasks
        self.slot_s += group.tasks * (now - group.started_s)
        stage.running -= group.tasks
        stage.ran[group.rack] += group.tasks
        job = self.jobs[stage.job]
        if job.stages[stage.index].parents:
            self.reduces.append((now - group.started_s, group.tasks))
        if stage.pending or stage.running:
            return
        self.stages_left[stage.job] -= 1
        if not self.stages_left[stage.job]:
            self.ends_s[stage.job] = now
        for later in self.stages[stage.job]:
            if stage.index in job.stages[later.index].parents:
                later.waits_for -= 1
                if not later.waits_for:
                    self._release(later)


MAX_STAGES_OF_A_JOB: Final = 100_000


def _spread(tasks: int, free: Ints) -> Ints:
    """Tasks over racks, in proportion to free slots, the remainder to the largest parts."""
    total = int(free.sum())
    if tasks >= total:
        return free.copy()
    exact = tasks * free / total
    shares = exact.astype(np.int64)
    rest = tasks - int(shares.sum())
    if rest:
        shares[np.argsort(shares - exact, kind="stable")[:rest]] += 1
    return shares


def simulate_racks(
    jobs: Sequence[RackJob],
    racks: int,
    rack: RackHardware,
    scheduler: JobScheduler,
    *,
    rates: Rates = max_min_rates,
    seed: int = 0,
    grain_s: float = 0.25,
) -> RacksOutcome:
    """Run jobs on equal racks.

    Args:
        racks: number of equal racks, 1 or more.
        rack: one rack; its uplink is what the jobs may use of it.
        scheduler: decides where a job's tasks run.
        rates: rule by which flows share links.
        seed: seed of the scheduler's draws.
        grain_s: length of time whose events happen at once, seconds, 0 or more.
    """
    chance = np.random.default_rng(seed)
    return _Simulation(jobs, racks, rack, scheduler, rates, chance, grain_s).run()
