"""Simulation of tasks on units: arrivals, decisions that take time, conflicts, runs under contention.

A task waits for its agent and sees the delay of the decision. Then the agent reads the units, and commits one
occupancy later. If another agent has taken the unit between the two, the task is drawn again. A task whose
sample holds no free unit waits: in one line, or at the units that were drawn. The performance of a task is
the mean of that at its start and that just before its end; its run is as long as the start says.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

import numpy as np

from kwiken.base.arrays import Floats, Ints
from papers.worlds.tasks.kinds import TaskKind
from papers.worlds.tasks.schedulers import Policy
from papers.worlds.tasks.units import UnitCluster

Look = Callable[[float, Mapping[int, TaskKind]], None]
DECIDE, COMMIT, END = range(3)
PROBES = 2  # units at which a task waits that found none free


@dataclass(frozen=True, eq=False)
class TaskLoad:
    """Tasks that arrive.

    Attributes:
        arrival_s: (n,) arrivals, rising, seconds.
        work_s: (n,) run time alone on the best platform, seconds.
        kind: (n,) number of each task's kind.
        job: (n,) number of the job that a task belongs to, whose tasks arrive together; a centralised
            scheduler decides once for a job. None where every task is a job.
    """

    arrival_s: Floats
    work_s: Floats
    kind: Ints
    job: Ints | None = None


@dataclass(frozen=True, eq=False)
class TaskOutcomes:
    """Outcome of the tasks of a run.

    Attributes:
        delay_s: (n,) from arrival to start: queues, messages, waits for a unit; seconds.
        response_s: (n,) from arrival to end, seconds.
        performance: (n,) mean of the performance at start and end, as a factor of that alone on the best.
        held: (n,) seconds of the delay for want of a free unit.
        conflicts: number of commits that came too late.
        utilisation: share of the units' time in use between first and last arrival.
        end_s: end of the last task, seconds.
    """

    delay_s: Floats
    response_s: Floats
    performance: Floats
    held: Floats
    conflicts: int
    utilisation: float
    end_s: float


def simulate(
    units: UnitCluster,
    kinds: list[TaskKind],
    load: TaskLoad,
    policy: Policy,
    *,
    draws: int = 8,
    agents: int = 10,
    seed: int = 0,
    look: Look | None = None,
    look_every_s: float = inf,
) -> TaskOutcomes:
    """Play tasks on units, which may have tasks of others running.

    Args:
        draws: sample size of a decision.
        agents: number of agents that decide; a centralised policy has one in any case.
        look: function that is called with the moment and the kind that runs on each busy unit.
        look_every_s: interval of the calls, seconds.
    """
    return _Simulation(units, kinds, load, policy, draws, agents, seed).run(look, look_every_s)


class _Simulation:
    def __init__(
        self,
        units: UnitCluster,
        kinds: list[TaskKind],
        load: TaskLoad,
        policy: Policy,
        draws: int,
        agents: int,
        seed: int,
    ) -> None:
        self.units, self.kinds, self.policy, self.draws = units, kinds, policy, draws
        self.rng = random.Random(seed)  # noqa: S311 - a simulation; plain numbers one at a time are fast
        self.arrival: list[float] = load.arrival_s.tolist()
        self.work: list[float] = load.work_s.tolist()
        self.kind: list[int] = load.kind.tolist()
        self.times = policy.times(draws, len(units.units))
        self.agent_free = [0.0] * (1 if self.times.most_s < inf else agents)
        count = len(self.arrival)
        self.start, self.end, self.performance = [0.0] * count, [0.0] * count, [0.0] * count
        self.held_since, self.held = [0.0] * count, [0.0] * count
        self.line: deque[int] = deque()
        self.probes: dict[int, deque[int]] = {}
        self.waiting = bytearray(count)
        self.events: list[tuple[float, int, int, int]] = []
        self.conflicts = 0
        self.running: dict[int, TaskKind] = {}
        self.job: list[int] = (np.arange(count) if load.job is None else load.job).tolist()

    def run(self, look: Look | None, look_every_s: float) -> TaskOutcomes:
        events, at, look_at = self.events, 0, look_every_s
        count = len(self.arrival)
        times, agent_free = self.times, self.agent_free
        number = len(agent_free)
        while at < count or events:
            if at < count and (not events or self.arrival[at] <= events[0][0]):
                now, agent = self.arrival[at], at % number
                begin = max(now, agent_free[agent])
                if number > 1 or not at or self.job[at] != self.job[at - 1]:
                    agent_free[agent] = begin + times.occupancy_s
                else:  # decided together with the task before
                    begin = max(now, begin - times.occupancy_s)
                ready = begin + times.delay_s
                heappush(events, (min(ready, now + times.most_s), DECIDE, at, -1))
                at += 1
                continue
            now, what, task, unit = heappop(events)
            while now >= look_at and look is not None:
                look(look_at, self.running)
                look_at += look_every_s
            if what == DECIDE:
                self._decide(task, now)
            elif what == COMMIT:
                self._commit(task, unit, now)
            else:
                self._end(task, unit, now)
        return self._outcomes()

    def _decide(self, task: int, now: float) -> None:
        unit = self.policy.choose(self.units, self.kinds[self.kind[task]], self.draws, self.rng)
        if unit is None:
            self._hold(task, now)
        elif len(self.agent_free) == 1:
            self._start(task, unit, now)
        else:
            heappush(self.events, (now + self.times.occupancy_s, COMMIT, task, unit))

    def _commit(self, task: int, unit: int, now: float) -> None:
        if self.units.is_free(unit):
            self._start(task, unit, now)
        else:
            self.conflicts += 1
            heappush(self.events, (now + self.times.retry_s, DECIDE, task, -1))

    def _hold(self, task: int, now: float) -> None:
        """Wait at two units that are drawn, or in one line; the first unit that is free takes the task."""
        self.held_since[task], self.waiting[task] = now, 1
        if not self.policy.probes:
            self.line.append(task)
            return
        for unit in self._drawn_units():
            if self.units.is_free(unit) and self.waiting[task]:
                self._released(task, unit, now)
            else:
                self.probes.setdefault(unit, deque()).append(task)

    def _drawn_units(self) -> list[int]:
        """Units to wait at: free ones, or ones whose task ends; what others run there may never end."""
        drawn: list[int] = []
        while len(drawn) < PROBES:
            unit = int(self.rng.random() * len(self.units))
            if unit in self.running or self.units.is_free(unit):
                drawn.append(unit)
        return drawn

    def _released(self, task: int, unit: int, now: float) -> None:
        self.waiting[task] = 0
        self.held[task] = now - self.held_since[task]
        self._start(task, unit, now)

    def _start(self, task: int, unit: int, now: float) -> None:
        kind = self.kinds[self.kind[task]]
        found = self.units.performance(self.units.server_of[unit], kind)
        self.units.take(unit, kind)
        self.running[unit] = kind
        self.start[task], self.performance[task] = now, found
        heappush(self.events, (now + self.work[task] / max(found, 1e-3), END, task, unit))

    def _end(self, task: int, unit: int, now: float) -> None:
        kind = self.kinds[self.kind[task]]
        later = self.units.performance(self.units.server_of[unit], kind, own=True)
        self.performance[task] = (self.performance[task] + later) / 2
        self.end[task] = now
        self.units.release(unit, kind)
        del self.running[unit]
        if self.policy.probes:
            queue = self.probes.get(unit)
            while queue:
                waiting = queue.popleft()
                if self.waiting[waiting]:
                    self._released(waiting, unit, now)
                    break
        elif self.line:
            waiting = self.line.popleft()
            self.waiting[waiting] = 0
            self.held[waiting] = now - self.held_since[waiting]
            self._decide(waiting, now)

    def _outcomes(self) -> TaskOutcomes:
        start, end, arrival = (np.array(each) for each in (self.start, self.end, self.arrival))
        span = float(arrival[-1] - arrival[0]) or 1.0
        inside = np.minimum(end, arrival[-1]) - np.minimum(start, arrival[-1])
        return TaskOutcomes(
            start - arrival,
            end - arrival,
            np.array(self.performance),
            np.array(self.held),
            self.conflicts,
            float(inside.sum()) / (span * len(self.units)),
            float(end.max()),
        )
