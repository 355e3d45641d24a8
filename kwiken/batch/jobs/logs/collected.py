"""Events of one run as a reader gathers them, and the run made of them with the waits of its driver."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.base.arrays import Ints
from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import (
    MAX_MS,
    MAX_STAGES,
    MAX_TASKS,
    BatchJob,
    BatchStage,
    Engine,
    ExecutorSpan,
    StageBytes,
    TaskTimes,
)

DRIVER_GAP_MS: Final = (
    50  # longest time from the end of a stage's parents to its submission without a driver's wait
)
MAX_NAME: Final = 200  # characters of a name that are kept


def _column() -> array[int]:
    return array("q")


@dataclass
class CollectedStage:
    """Stage as its events come in.

    Attributes:
        number: number of the stage in the log, which tells stages of one submission time apart.
        parents: numbers of the stages whose output it reads.
        action: number of the driver's action that it is part of, which engines serve in order.
        submitted_ms: time of its first submission, milliseconds since 1970; None before one is seen.
        ended_ms: time of its last completion, milliseconds since 1970; None before one is seen.
        launched_ms: by task that succeeded, time of launch, milliseconds since 1970.
        took_ms: by task that succeeded, time from launch to finish, milliseconds.
        executor: by task that succeeded, place of its executor.
    """

    number: int
    name: str = ""
    n_tasks: int = 0
    parents: tuple[int, ...] = ()
    action: int = 0
    submitted_ms: int | None = None
    ended_ms: int | None = None
    launched_ms: array[int] = field(default_factory=_column)
    took_ms: array[int] = field(default_factory=_column)
    executor: array[int] = field(default_factory=_column)
    read: int = 0
    shuffled_local: int = 0
    shuffled_remote: int = 0
    shuffle_written: int = 0
    written: int = 0
    spilled: int = 0
    repeats: int = 0
    failed: int = 0
    killed: int = 0
    speculative: int = 0

    @property
    def bytes(self) -> StageBytes:
        """Bytes that its tasks moved."""
        return StageBytes(**{name: _bounded(getattr(self, name)) for name in StageBytes.__struct_fields__})


@dataclass
class CollectedExecutor:
    """Executor as its events come in; times in milliseconds since 1970.

    Attributes:
        slots: number of tasks that it runs at once; None where no event tells.
        from_ms: time of its arrival; None where no event tells.
        until_ms: time of its loss; None before that.
    """

    host: str = ""
    rack: str = ""
    slots: int | None = None
    from_ms: int | None = None
    until_ms: int | None = None


@dataclass
class CollectedRun:
    """Run of a job as its events come in.

    Attributes:
        began_ms: time of submission, milliseconds since 1970; None before an event tells.
        ended_ms: time of the end, milliseconds since 1970; None before an event tells.
        executors: executors by their name in the log, in order of arrival.
        started: number of task attempts that started.
        unknown: what the log cannot tell, one sentence an entry.
        backwards: number of events whose times ran backwards.
    """

    engine: Engine
    name: str = ""
    id: str = ""
    began_ms: int | None = None
    ended_ms: int | None = None
    stages: dict[int, CollectedStage] = field(default_factory=dict)
    executors: dict[str, CollectedExecutor] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    started: int = 0
    unknown: list[str] = field(default_factory=list)
    backwards: int = 0

    def stage(self, number: int) -> CollectedStage:
        """Stage of a number; a new one where no event has told of it.

        Raises:
            ValueError: the number is negative.
            InputError: the log has more stages than are read.
        """
        found = self.stages.get(number)
        if found is None:
            if number < 0:
                raise ValueError(f"has a stage of the number {number}; stages count from 0")
            if len(self.stages) >= MAX_STAGES:
                raise InputError(f"has more than {MAX_STAGES} stages, the most that is read")
            found = self.stages[number] = CollectedStage(number)
        return found

    def executor(self, name: str) -> CollectedExecutor:
        """Executor of a name; a new one where no event has told of it."""
        found = self.executors.get(name)
        if found is None:
            self.places[name] = len(self.executors)
            found = self.executors[name] = CollectedExecutor()
        return found

    def place(self, name: str) -> int:
        """Place of an executor in order of arrival."""
        at = self.places.get(name)
        if at is None:
            self.executor(name)
            at = self.places[name]
        return at

    def task_ran(self, stage: CollectedStage, executor: str, launched_ms: int, finished_ms: int) -> None:
        """Note a task that succeeded; times in milliseconds since 1970.

        Raises:
            ValueError: a time is out of range.
        """
        check_moments(launched_ms, finished_ms)
        if finished_ms < launched_ms:
            self.backwards += 1
            finished_ms = launched_ms
        stage.launched_ms.append(launched_ms)
        stage.took_ms.append(finished_ms - launched_ms)
        stage.executor.append(self.place(executor))

    def assembled(self, name: str) -> BatchJob:
        """Run of what was gathered.

        Args:
            name: name of the job where the log gives none.
        """
        began = self._began()
        last = max([began, *self._times()])
        stages = _in_order(self.stages, began)
        index = {stage.number: place for place, stage in enumerate(stages)}
        ran = sum(len(stage.took_ms) + stage.failed + stage.killed for stage in stages)
        unknown = list(self.unknown)
        if self.ended_ms is None:
            unknown.append("the end: the log stops before it")
        if self.backwards:
            unknown.append(f"{self.backwards} times: they run backwards, and are taken as standing still")
        return BatchJob(
            name=(self.name or name)[:MAX_NAME],
            id=self.id[:MAX_NAME],
            engine=self.engine,
            submitted_ms=_bounded(began),
            took_ms=_bounded((last if self.ended_ms is None else max(self.ended_ms, began)) - began),
            ended=self.ended_ms is not None,
            stages=_built(stages, index, began),
            executors=self._spans(stages, began),
            unfinished=max(0, self.started - ran),
            unknown=unknown,
        )

    def _began(self) -> int:
        if self.began_ms is not None:
            return self.began_ms
        times = list(self._times())
        return min(times) if times else 0

    def _times(self) -> Iterable[int]:
        for stage in self.stages.values():
            yield from (time for time in (stage.submitted_ms, stage.ended_ms) if time is not None)
            if len(stage.took_ms):
                launched = np.frombuffer(stage.launched_ms, dtype=np.int64)
                yield int(launched.min())
                yield int((launched + np.frombuffer(stage.took_ms, dtype=np.int64)).max())

    def _spans(self, stages: list[CollectedStage], began: int) -> list[ExecutorSpan]:
        peaks = (
            _peaks(stages, len(self.executors))
            if any(one.slots is None for one in self.executors.values())
            else np.zeros(len(self.executors), dtype=np.int64)
        )
        firsts = _first_launches(stages, len(self.executors))
        found = []
        for place, one in enumerate(self.executors.values()):
            arrived = one.from_ms if one.from_ms is not None else int(firsts[place])
            found.append(
                ExecutorSpan(
                    host=one.host[:MAX_NAME],
                    rack=one.rack[:MAX_NAME],
                    slots=min(1 << 20, max(1, one.slots if one.slots is not None else int(peaks[place]))),
                    from_ms=_bounded(min(arrived, MAX_MS) - began),
                    until_ms=None if one.until_ms is None else _bounded(one.until_ms - began),
                )
            )
        return found


def check_moments(*moments_ms: int) -> None:
    """Check times of events.

    Args:
        moments_ms: times in milliseconds since 1970.

    Raises:
        ValueError: a time is negative, or larger than a double holds exactly.
    """
    for moment in moments_ms:
        if not 0 <= moment <= MAX_MS:
            raise ValueError(f"has the time {moment:.3g}; times are 0 to 2^53 milliseconds since 1970")


def _bounded(value: int) -> int:
    return min(max(0, value), MAX_MS)


def _in_order(stages: Mapping[int, CollectedStage], began: int) -> list[CollectedStage]:
    """Stages that were submitted, by time of submission and then by number; parents before children."""
    there = [stage for stage in stages.values() if stage.submitted_ms is not None or len(stage.took_ms)]
    for stage in there:
        if stage.submitted_ms is None:
            stage.submitted_ms = max(began, int(np.frombuffer(stage.launched_ms, dtype=np.int64).min()))
    return sorted(there, key=lambda stage: (stage.submitted_ms or 0, stage.number))


def _built(stages: list[CollectedStage], index: Mapping[int, int], began: int) -> list[BatchStage]:
    built: list[BatchStage] = []
    served = sorted(stages, key=lambda stage: (stage.action, stage.number))
    rank = {stage.number: place for place, stage in enumerate(served)}
    releases = _Releases()
    for place, stage in enumerate(stages):
        submitted = _bounded((stage.submitted_ms or began) - began)
        parents = sorted({index[one] for one in stage.parents if index.get(one, place) < place})
        after, wait = releases.of(parents, submitted)
        order = np.argsort(np.frombuffer(stage.launched_ms, dtype=np.int64), kind="stable")
        launched, took, executor = (
            np.frombuffer(column, dtype=np.int64)[order] if len(column) else np.zeros(0, dtype=np.int64)
            for column in (stage.launched_ms, stage.took_ms, stage.executor)
        )
        ended = None if stage.ended_ms is None else _bounded(stage.ended_ms - began)
        built.append(
            BatchStage(
                name=stage.name[:MAX_NAME],
                n_tasks=min(MAX_TASKS, max(0, stage.n_tasks)),
                parents=parents,
                after=after,
                wait_ms=wait,
                submitted_ms=submitted,
                ended_ms=ended,
                rank=rank[stage.number],
                tasks=TaskTimes(
                    launched_ms=np.clip(launched - began, 0, MAX_MS).tolist(),
                    took_ms=np.clip(took, 0, MAX_MS).tolist(),
                    executor=executor.tolist(),
                ),
                bytes=stage.bytes,
                repeats=stage.repeats,
                failed=stage.failed,
                killed=stage.killed,
                speculative=stage.speculative,
            )
        )
        releases.add(after, ended)
    return built


class _Releases:
    """Stages in order of submission: which of them released the next one."""

    def __init__(self) -> None:
        self._ends: list[int | None] = []
        self._running: list[tuple[int, int]] = []  # heap of end and stage, of ends after the last submission
        self._endless = 0  # stages whose end is not known
        self._last_ended: tuple[int, int] | None = None  # end and stage of the last one that has ended
        self._awaited_by_none: set[int] = set()

    def add(self, after: list[int], ended: int | None) -> None:
        """Take the next stage: the stages that it waited for, and its end, milliseconds since the start."""
        place = len(self._ends)
        self._ends.append(ended)
        if ended is None:
            self._endless += 1
        else:
            heapq.heappush(self._running, (ended, place))
        self._awaited_by_none.difference_update(after)
        self._awaited_by_none.add(place)

    def of(self, parents: list[int], submitted: int) -> tuple[list[int], int]:
        """Stages whose end released a stage, and the driver's wait from the last of their ends.

        There are three cases: 1. its parents ended just before, and nothing else is waited for; 2. nothing
        ran when it was submitted, so the driver waited for all that had been running; 3. other stages ran, so
        the driver waited for the last one that had ended only.

        Args:
            submitted: time of its submission, which never falls from stage to stage, milliseconds.
        """
        while self._running and self._running[0][0] <= submitted:
            ended, place = heapq.heappop(self._running)
            if self._last_ended is None or ended > self._last_ended[0]:
                self._last_ended = ended, place
        last_parent = max((self._ends[one] or 0 for one in parents), default=None)
        if last_parent is not None and submitted - last_parent <= DRIVER_GAP_MS:
            return parents, max(0, submitted - last_parent)
        if self._last_ended is None:
            return parents, submitted if last_parent is None else max(0, submitted - last_parent)
        runs = bool(self._running) or self._endless > 0
        after = sorted({*parents, *((self._last_ended[1],) if runs else self._awaited_by_none)})
        return after, max(0, submitted - max(self._ends[one] or 0 for one in after))


def _first_launches(stages: list[CollectedStage], n_executors: int) -> Ints:
    firsts = np.full(n_executors, MAX_MS, dtype=np.int64)
    for stage in stages:
        if len(stage.took_ms):
            np.minimum.at(
                firsts,
                np.frombuffer(stage.executor, dtype=np.int64),
                np.frombuffer(stage.launched_ms, dtype=np.int64),
            )
    return firsts


def _peaks(stages: list[CollectedStage], n_executors: int) -> Ints:
    """Most tasks that each executor ran at once."""
    columns = [
        np.concatenate([np.frombuffer(getattr(stage, name), dtype=np.int64) for stage in stages])
        if stages
        else np.zeros(0, dtype=np.int64)
        for name in ("launched_ms", "took_ms", "executor")
    ]
    launched, took, executor = columns
    times = np.concatenate([launched, launched + np.maximum(took, 1)])
    change = np.concatenate([np.ones_like(launched), -np.ones_like(launched)])
    who = np.concatenate([executor, executor])
    order = np.lexsort((change, times, who))
    running = np.cumsum(
        change[order]
    )  # each executor's tasks sum to zero, so the sum starts anew with the next
    peaks = np.zeros(n_executors, dtype=np.int64)
    np.maximum.at(peaks, who[order], running)
    return peaks
