"""List scheduling of a DAG of stages on slots that all stages share, first in, first out as engines do."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.batch.jobs.replay.task_times import StageTaskTimes


@dataclass(frozen=True)
class ReplayedStage:
    """Stage to schedule.

    Attributes:
        after: indices of the stages whose end releases this one.
        wait_ms: time of the driver from the last of their ends to the first task, milliseconds.
        close_ms: time from the last task's finish to the stage's end, milliseconds.
        tasks: times of the tasks, in the order in which they start.
        least_ms: shortest time from the first task to the end, such as of a transfer; milliseconds.
        rank: order in which stages that wait for slots are served; the smallest goes first.
    """

    after: tuple[int, ...]
    wait_ms: float
    close_ms: float
    tasks: StageTaskTimes
    least_ms: float = 0.0
    rank: int = 0


@dataclass(frozen=True)
class Slots:
    """Slots for tasks.

    Attributes:
        from_ms: by slot, time from which it is there, milliseconds.
        until_ms: by slot, time at which it is gone; infinite where it stays.
    """

    from_ms: Floats
    until_ms: Floats

    @classmethod
    def standing(cls, from_ms: Floats) -> Slots:
        """Slots that stay to the end."""
        return cls(from_ms, np.full(from_ms.size, np.inf))


@dataclass(frozen=True)
class Replayed:
    """Outcome of a schedule; times in milliseconds since the job's start.

    Attributes:
        total_ms: end of the last stage.
        begun_ms: by stage, start of its first task, or its release where it has none.
        ended_ms: by stage, its end.
        released_by: by stage, the stage whose end released it; -1 for the job's start.
        waited_for_slots_ms: by stage, time from its release to its first task.
        busy_ms: time of all tasks.
    """

    total_ms: float
    begun_ms: Floats
    ended_ms: Floats
    released_by: list[int]
    waited_for_slots_ms: Floats
    busy_ms: float

    def path(self) -> list[int]:
        """Stages that the end waited for, each released by the one before it."""
        found: list[int] = []
        at = int(self.ended_ms.argmax()) if self.ended_ms.size else -1
        while at >= 0:
            found.append(at)
            at = self.released_by[at]
        return found[::-1]


def replay(stages: Sequence[ReplayedStage], slots: Slots, *, factors: Floats | None = None) -> Replayed:
    """Schedule the stages: a free slot takes the next task of the first released stage that has one.

    Args:
        stages: stages, each after those that it waits for.
        slots: slots, at least one; if none stays, the one that leaves last is kept.
        factors: by stage, what its task times are multiplied with, above 0; None for 1.
    """
    schedule = SlotSchedule(stages, slots, np.ones(len(stages)) if factors is None else factors)
    schedule.run()
    return schedule.outcome()


class StartedTask(NamedTuple):
    """Task that a schedule has started; times in milliseconds since the job's start.

    Attributes:
        first: whether it was the first of its stage on the slot.
    """

    slot: int
    start: float
    end: float
    first: bool


class SlotSchedule:
    """State of a schedule: heaps of free slots, of releases and ends of stages, and of released stages.

    Args:
        stages: stages, each after those that it waits for.
        slots: slots, at least one; if none stays, the one that leaves last is kept.
        factors: by stage, what its task times are multiplied with, above 0.
    """

    def __init__(self, stages: Sequence[ReplayedStage], slots: Slots, factors: Floats) -> None:
        n = len(stages)
        self._stages = stages
        self._first = [(one.tasks.first_ms * by).tolist() for one, by in zip(stages, factors, strict=True)]
        self._later = [(one.tasks.later_ms * by).tolist() for one, by in zip(stages, factors, strict=True)]
        self._free = [(float(at), slot) for slot, at in enumerate(slots.from_ms)]
        heapq.heapify(self._free)
        self._until = slots.until_ms.tolist()
        if max(self._until) < math.inf:
            self._until[int(np.argmax(slots.until_ms))] = math.inf
        self._missing = [len(stage.after) for stage in stages]
        self._children: list[list[int]] = [[] for _ in range(n)]
        self._seen: list[set[int]] = [set() for _ in range(n)]
        self.log: list[list[StartedTask]] = [[] for _ in range(n)]
        self._finish = [0.0] * n
        self._begun = np.zeros(n)
        self._released = np.zeros(n)
        self._ended = np.zeros(n)
        self._released_by = [-1] * n
        self._busy = 0.0
        self._ready: list[
            tuple[int, int]
        ] = []  # rank and stage, of released ones with tasks that have not started
        self._events: list[tuple[float, bool, int]] = []  # time, whether a release rather than an end, stage
        for place, stage in enumerate(stages):
            for before in stage.after:
                self._children[before].append(place)
            if not stage.after:
                self._events.append((stage.wait_ms, True, place))
        heapq.heapify(self._events)

    def run(self) -> None:
        """Play the events in order of time; tasks start between them."""
        while self._events or self._ready:
            next_ms = self._events[0][0] if self._events else math.inf
            while self._ready and self._start_task(next_ms):
                next_ms = self._events[0][0] if self._events else math.inf
            if not self._events:
                break
            at, is_release, place = heapq.heappop(self._events)
            if is_release:
                self._release(place, at)
            else:
                self._end(place, at)

    def _start_task(self, next_ms: float) -> bool:
        """Start one task unless an event comes before; False if none started."""
        at, slot = self._free[0]
        place = self._ready[0][1]
        start = max(at, float(self._released[place]))
        if start > next_ms:
            return False
        if start >= self._until[slot]:
            heapq.heappop(self._free)
            return True
        number = len(self.log[place])
        seen = self._seen[place]
        is_first = slot not in seen
        took = (self._first if is_first else self._later)[place][number]
        seen.add(slot)
        if number == 0:
            self._begun[place] = start
        self._busy += took
        end = start + took
        self.log[place].append(StartedTask(slot, start, end, is_first))
        self._finish[place] = max(self._finish[place], end)
        heapq.heapreplace(self._free, (end, slot))
        if number + 1 == len(self._first[place]):
            heapq.heappop(self._ready)
            self.all_started(place, start)
        return True

    def all_started(self, place: int, at: float) -> None:
        """All tasks of a stage have started, so its end is known.

        Args:
            at: start of the last of them, milliseconds.
        """
        del at
        stage = self._stages[place]
        end = max(self._finish[place], float(self._begun[place]) + stage.least_ms) + stage.close_ms
        heapq.heappush(self._events, (end, False, place))

    def _release(self, place: int, at: float) -> None:
        self._released[place] = at
        if self._first[place]:
            heapq.heappush(self._ready, (self._stages[place].rank, place))
        else:
            self._begun[place] = self._finish[place] = at
            self.all_started(place, at)

    def _end(self, place: int, at: float) -> None:
        self._ended[place] = at
        for child in self._children[place]:
            self._missing[child] -= 1
            if not self._missing[child]:
                self._released_by[child] = place
                heapq.heappush(self._events, (at + self._stages[child].wait_ms, True, child))

    def outcome(self) -> Replayed:
        """What became of the stages."""
        return Replayed(
            total_ms=float(self._ended.max()) if self._ended.size else 0.0,
            begun_ms=self._begun,
            ended_ms=self._ended,
            released_by=self._released_by,
            waited_for_slots_ms=np.maximum(0, self._begun - self._released),
            busy_ms=self._busy,
        )
