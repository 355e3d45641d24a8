"""Completion time of a job on 1 to R racks: waves of tasks, and a shuffle that crosses the core."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.batch.jobs.job import BatchJob, BatchStage

BLOCK_BYTES: Final = 128 << 20  # most that one task writes, where a job says nothing of its tasks
TASK_BYTES_PER_S: Final = 25e6  # of a task whose time is not known
MAX_JOB_NAME: Final = 900  # characters; a plan takes a thousand, with the number of a run
MIN_TASK_S: Final = 1.0  # a task's start and end, likewise


@dataclass(frozen=True)
class RackStage:
    """Stage of a job, as racks see it.

    Attributes:
        tasks: number of its tasks, 0 or more.
        task_s: time of one task without the fetching of its shuffle, seconds, 0 or more.
        shuffled_bytes: bytes that all its tasks fetch from those of other stages.
        parents: indices of the stages that it waits for and fetches from, each below its own.
    """

    tasks: int
    task_s: float
    shuffled_bytes: float = 0.0
    parents: tuple[int, ...] = ()


@dataclass(frozen=True)
class RackJob:
    """Job to be planned: its stages, and when it may start.

    Attributes:
        name: unique name of the run.
        arrival_s: moment from which it may start, seconds.
        input_bytes: size of its input, bytes.
    """

    name: str
    arrival_s: float
    input_bytes: float
    stages: tuple[RackStage, ...]


@dataclass(frozen=True)
class RackHardware:
    """One of several equal racks.

    Attributes:
        slots: number of tasks that a rack runs at once, 1 or more.
        machines: number of machines in a rack, 1 or more.
        nic_bytes_per_s: bandwidth of a machine's link, bytes per second.
        uplink_bytes_per_s: bandwidth between a rack and the core, bytes per second.

    Raises:
        InputError: says which of them is out of range.
    """

    slots: int
    machines: int
    nic_bytes_per_s: float
    uplink_bytes_per_s: float

    def __post_init__(self) -> None:
        """Check bounds."""
        for name in ("slots", "machines"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"a rack needs {name}: 1 or more, not {getattr(self, name)}", where="cluster"
                )
        for name in ("nic_bytes_per_s", "uplink_bytes_per_s"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise InputError(f"{name} must be a finite number above 0, not {value}", where="cluster")

    @property
    def oversubscription(self) -> float:
        """Bandwidth of all links inside the rack over that to the core, 1 or more."""
        return max(1.0, self.machines * self.nic_bytes_per_s / self.uplink_bytes_per_s)


def rack_response_s(job: RackJob, racks: int, rack: RackHardware) -> Floats:
    """Completion time of a job alone on 1 to R racks, seconds: the longest path through its stages.

    A stage takes whole waves of its tasks, and the time of its shuffle.

    Args:
        racks: largest number of racks, R.
    """
    numbers = np.arange(1, racks + 1)
    ends: list[Floats] = []
    for stage in job.stages:
        begin = np.zeros(racks)
        for parent in stage.parents:
            begin = np.maximum(begin, ends[parent])
        waves = -(-stage.tasks // (numbers * rack.slots))
        took = waves * stage.task_s
        if stage.shuffled_bytes:
            core, inside = shuffle_over_racks(stage.shuffled_bytes, rack, numbers)
            took = took + np.maximum(core, inside)
        ends.append(begin + took)
    longest: Floats = np.max(ends, axis=0) if ends else np.zeros(racks)
    return np.maximum(longest, MIN_TASK_S)


def shuffle_over_racks(shuffled_bytes: float, rack: RackHardware, racks: Ints) -> tuple[Floats, Floats]:
    """Times that a shuffle takes over the core and inside the racks, seconds (MRCute section 3.2).

    Args:
        shuffled_bytes: bytes that all reduces fetch.
        racks: (n,) numbers of racks, 1 or more.
    """
    m, nic, over = rack.machines, rack.nic_bytes_per_s, rack.oversubscription
    each = shuffled_bytes / (racks * m)
    if over <= 1:  # a flat network: one transfer among all machines
        return np.zeros(racks.shape), each * (racks * m - 1) / (racks * m) / nic
    core = each * (racks - 1) / racks / (nic / over)
    return core, each / racks * (m - 1) / m / (nic - nic / over)


def rack_jobs(jobs: Sequence[BatchJob], task_bytes_per_s: float = TASK_BYTES_PER_S) -> list[RackJob]:
    """Jobs to be planned, from runs that logs tell of, or from sizes alone.

    Arrivals count from the first submission. Where a run has no task times, tasks take their bytes at a rate
    that is assumed, and write at most a block of 128 MiB each.

    Args:
        jobs: runs of jobs; each is planned once.
        task_bytes_per_s: rate of a task whose time is not known, bytes per second.

    Raises:
        InputError: there is no job.
    """
    if not jobs:
        raise InputError("there is no job to plan", where="jobs")
    first_ms = min(job.submitted_ms for job in jobs)
    names = _unique_names([(job.name or job.id or "job")[:MAX_JOB_NAME] for job in jobs])
    found = []
    for job, name in zip(jobs, names, strict=True):
        stages = tuple(_stage(stage, task_bytes_per_s) for stage in job.stages)
        read = sum(stage.bytes.read for stage in job.stages)
        found.append(RackJob(name, (job.submitted_ms - first_ms) / 1e3, float(read), stages))
    return found


def _unique_names(names: Sequence[str]) -> list[str]:
    """Names with a number for each that comes again: `NAME (2)` and so on."""
    taken, counts = set(names), dict.fromkeys(names, 0)
    found = []
    for name in names:
        counts[name] += 1
        unique = name
        while counts[name] > 1 and (unique := f"{name} ({counts[name]})") in taken:
            counts[name] += 1
        taken.add(unique)
        found.append(unique)
    return found


def _stage(stage: BatchStage, task_bytes_per_s: float) -> RackStage:
    moved = stage.bytes
    shuffled = float(moved.shuffled)
    tasks = stage.n_tasks
    if stage.tasks.took_ms:
        task_s = stage.task_ms / len(stage.tasks) / 1e3
    else:
        tasks = max(tasks, math.ceil(moved.written / BLOCK_BYTES))
        each = (moved.read + shuffled + moved.written) / max(1, tasks)
        task_s = MIN_TASK_S + each / task_bytes_per_s
    return RackStage(tasks, task_s, shuffled, tuple(stage.parents))
