"""One run as a model: DAG, task times, arrivals of executors and the driver's time, on any executors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.replay.scheduling import Replayed, ReplayedStage, Slots, replay
from kwiken.batch.jobs.replay.task_times import StageTaskTimes, stage_task_times

MAX_SLOTS: Final = 1_000_000
MAX_SCALED_TASKS: Final = 2_000_000  # of a run with other input
MAX_LAUNCH_MS: Final = 200.0  # from a stage's submission to its first task where a slot is free
MAX_CORRECTION: Final = 2.0  # by which a run may differ from its own replay


@dataclass(frozen=True, kw_only=True)
class NetworkBounds:
    """Links that a job's shuffles share.

    Attributes:
        machines: number of machines that hold the executors, 1 or more.
        bytes_per_s: bandwidth of a machine to the others, bytes per second.
        racks: number of racks that the machines stand in, 1 or more.
        core_bytes_per_s: bandwidth of a machine to other racks, bytes per second.
    """

    machines: int
    bytes_per_s: float
    racks: int
    core_bytes_per_s: float

    def least_ms(self, shuffled: float) -> float:
        """Shortest time of a shuffle whose data lie evenly, milliseconds."""
        each = shuffled / self.machines
        inside = each * (self.machines - 1) / self.machines / self.bytes_per_s
        across = each * (self.racks - 1) / self.racks / self.core_bytes_per_s
        return 1000.0 * max(inside, across)


@dataclass(frozen=True)
class RunModel:
    """Model of one run.

    Attributes:
        job: the run that it was made from.
        stages: its stages as they are scheduled.
        tail_ms: time from the end of the last stage to the end of the job, milliseconds.
        arrivals_ms: times at which executors arrive, sorted, milliseconds.
        slots_per_executor: number of tasks that an executor runs at once.
        correction: observed completion time over that of its own replay.
    """

    job: BatchJob
    stages: tuple[ReplayedStage, ...]
    tail_ms: float
    arrivals_ms: Floats
    slots_per_executor: int
    correction: float

    @property
    def n_executors(self) -> int:
        """Executors that the run had."""
        return self.job.n_executors

    def in_use(self, executors: int) -> Floats:
        """By stage, executors that its tasks can keep busy at once: no more than there are tasks for.

        Args:
            executors: number of executors, 1 or more.
        """
        enough = np.array([len(stage.tasks) for stage in self.stages]) / self.slots_per_executor
        return np.minimum(executors, np.maximum(1.0, enough))

    def work_ms(self) -> Floats:
        """By stage, time of its tasks if none were the first on its slot, milliseconds."""
        return np.array([float(stage.tasks.later_ms.sum()) for stage in self.stages])

    def at(
        self,
        executors: int,
        *,
        factors: Floats | None = None,
        input_scale: float = 1.0,
        network: NetworkBounds | None = None,
        slots_per_executor: int | None = None,
    ) -> tuple[float, Replayed]:
        """Completion time on other executors, milliseconds, and the schedule that gives it.

        Args:
            executors: number of executors, 1 or more.
            factors: by stage, what its task times are multiplied with, above 0; None for 1.
            input_scale: bytes of input over those of the run, above 0.
            network: links that shuffles share; None for as fast as in the run.
            slots_per_executor: number of tasks that an executor runs at once; None for as in the run.

        Raises:
            InputError: no executor, too many slots, or too many tasks for the input.
        """
        each = slots_per_executor or self.slots_per_executor
        if not 1 <= executors * each <= MAX_SLOTS:
            raise InputError(f"must be from 1 to {MAX_SLOTS // each}, not {executors}", where="executors")
        arrivals = np.quantile(self.arrivals_ms, (np.arange(executors) + 0.5) / executors)
        if executors == self.arrivals_ms.size:
            arrivals = self.arrivals_ms
        stages = _scaled(self.stages, self.job, input_scale) if input_scale != 1.0 else self.stages
        if network is not None:
            stages = tuple(
                replace(stage, least_ms=network.least_ms(input_scale * of.bytes.shuffled))
                for stage, of in zip(stages, self.job.stages, strict=True)
            )
        found = replay(stages, Slots.standing(np.repeat(arrivals, each)), factors=factors)
        return self.correction * (found.total_ms + self.tail_ms), found


def run_model(job: BatchJob) -> RunModel:
    """Model of a run.

    Raises:
        InputError: a run without task times or executors, as of a table of sizes or a log without tasks; or
            with too many slots.
    """
    if not job.executors or not any(len(stage.tasks) for stage in job.stages):
        raise InputError("no task of the job has a time, so nothing can be predicted from it", where=job.name)
    all_slots = sum(one.slots for one in job.executors)
    if all_slots > MAX_SLOTS:
        raise InputError(f"its executors have {all_slots} slots; {MAX_SLOTS} is the most", where=job.name)
    times = stage_task_times(job)
    launch = _launch_ms(job)
    waits = _driver_waits_ms(job)
    stages = tuple(
        ReplayedStage(
            after=tuple(stage.after),
            wait_ms=float(waits[place]) + (launch if len(stage.tasks) else 0.0),
            close_ms=_close_ms(job, place),
            tasks=times[place],
            rank=stage.rank,
        )
        for place, stage in enumerate(job.stages)
    )
    ends = [
        one.ended_ms if one.ended_ms is not None else _last_finish(job, at)
        for at, one in enumerate(job.stages)
    ]
    tail = float(max(0, job.took_ms - max(ends))) if job.ended else 0.0
    arrivals = np.sort(np.array([one.from_ms for one in job.executors], dtype=np.float64))
    slots = [one.slots for one in job.executors]
    own = Slots(
        np.repeat([float(one.from_ms) for one in job.executors], slots),
        np.repeat([np.inf if one.until_ms is None else float(one.until_ms) for one in job.executors], slots),
    )
    stages, correction = _served(stages, own, tail, job.took_ms)
    values, counts = np.unique(slots, return_counts=True)
    return RunModel(
        job=job,
        stages=stages,
        tail_ms=tail,
        arrivals_ms=arrivals[: max(1, job.n_executors)],
        slots_per_executor=int(values[counts.argmax()]),
        correction=float(np.clip(correction, 1 / MAX_CORRECTION, MAX_CORRECTION)),
    )


def _served(
    stages: tuple[ReplayedStage, ...], own: Slots, tail_ms: float, took_ms: int
) -> tuple[tuple[ReplayedStage, ...], float]:
    """Stages in the order of service that explains the run best, and observed over replayed time.

    Engines serve stages by their number or by the time of their submission, as they are set.
    """
    in_order = tuple(replace(stage, rank=place) for place, stage in enumerate(stages))
    found = []
    for tried in (stages, in_order) if in_order != stages else (stages,):
        replayed = replay(tried, own).total_ms + tail_ms
        correction = took_ms / replayed if replayed > 0 and took_ms > 0 else 1.0
        found.append((tried, correction))
    return min(found, key=lambda each: abs(np.log(each[1])))


def _last_finish(job: BatchJob, place: int) -> int:
    tasks = job.stages[place].tasks
    return max((a + b for a, b in zip(tasks.launched_ms, tasks.took_ms, strict=True)), default=0)


def _close_ms(job: BatchJob, place: int) -> float:
    stage = job.stages[place]
    if stage.ended_ms is None or not len(stage.tasks):
        return 0.0
    return float(max(0, stage.ended_ms - _last_finish(job, place)))


def _driver_waits_ms(job: BatchJob) -> Floats:
    """By stage, wait for the driver, milliseconds: the part of its wait in which some slot was free.

    A stage that waits while all slots are busy waits for them; with more executors it would not.
    """
    waits = np.array([float(stage.wait_ms) for stage in job.stages])
    launched, took = (
        np.concatenate([np.asarray(getattr(stage.tasks, name), dtype=np.float64) for stage in job.stages])
        for name in ("launched_ms", "took_ms")
    )
    came = [float(one.from_ms) for one in job.executors]
    left = [float(one.until_ms) for one in job.executors if one.until_ms is not None]
    went = [one.slots for one in job.executors if one.until_ms is not None]
    moments = np.concatenate([launched, launched + took, came, left])
    free = np.concatenate(
        [-np.ones(len(took)), np.ones(len(took)), [one.slots for one in job.executors], np.negative(went)]
    )
    at, which = np.unique(moments, return_inverse=True)
    slots = np.cumsum(np.bincount(which, weights=free))
    full_ms = np.concatenate(([0.0], np.cumsum(np.diff(at) * (slots[:-1] <= 0))))
    until = np.array([float(stage.submitted_ms or 0) for stage in job.stages])
    behind: Floats = np.interp(until, at, full_ms) - np.interp(until - waits, at, full_ms)
    # Before the first executor no slot is free either, and the driver is what is waited for.
    behind = np.where(until - waits < min(came), 0.0, behind)
    return np.maximum(waits - behind, 0.0)


def _launch_ms(job: BatchJob) -> float:
    """Time from a stage's submission to its first task, where a slot is free, milliseconds."""
    delays = [
        stage.tasks.launched_ms[0] - stage.submitted_ms
        for stage in job.stages
        if len(stage.tasks) and stage.submitted_ms is not None
    ]
    found = [delay for delay in delays if 0 <= delay <= MAX_LAUNCH_MS]
    return float(np.median(found)) if found else 0.0


def _scaled(stages: tuple[ReplayedStage, ...], job: BatchJob, scale: float) -> tuple[ReplayedStage, ...]:
    """Stages with more or less input: stages that read have more tasks, others have longer ones."""
    tasks_of_all = sum(scale * len(of.tasks) for of in job.stages if of.bytes.read > 0)
    if tasks_of_all > MAX_SCALED_TASKS:
        raise InputError(
            f"is {scale:.3g} times that of the run, which makes {tasks_of_all:.3g} tasks; "
            f"{MAX_SCALED_TASKS} is the most",
            where="input",
        )
    found = []
    for stage, of in zip(stages, job.stages, strict=True):
        tasks = stage.tasks
        if of.bytes.read > 0 and len(tasks):
            pick = np.arange(max(1, round(scale * len(tasks)))) % len(tasks)
            tasks = StageTaskTimes(tasks.first_ms[pick], tasks.later_ms[pick])
        elif of.bytes.shuffled > 0:
            tasks = StageTaskTimes(scale * tasks.first_ms, scale * tasks.later_ms)
        found.append(replace(stage, tasks=tasks))
    return tuple(found)
