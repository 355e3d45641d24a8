"""Schedulers of jobs on racks behind one protocol: by arrival, shortest first, fair share, and a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kwiken.base.arrays import Ints
from kwiken.batch.racks.response import RackJob


@dataclass(frozen=True)
class JobPlace:
    """Racks on which the tasks of a job may run, and the job's priority.

    Attributes:
        rank: place among the jobs that wait for a slot; the smallest goes first.
        racks: racks that its tasks may run on; None for all.
        remote_share: share of its input that is read over the core, 0 to 1.
        fair: whether free slots go to the jobs that run on the fewest, whatever their ranks.
    """

    rank: tuple[float, ...]
    racks: Ints | None
    remote_share: float
    fair: bool = False


class JobScheduler(Protocol):
    """Decides once for each job, at its arrival."""

    @property
    def name(self) -> str:
        """Name for tables."""

    def place(self, job: RackJob, racks: int, waiting_slots: Ints, chance: np.random.Generator) -> JobPlace:
        """Where a job runs.

        Args:
            racks: number of racks of the cluster, 1 or more.
            waiting_slots: (R,) number of tasks that run on each rack now.
        """


@dataclass(frozen=True)
class YarnLike:
    """Capacity scheduler of Yarn with one queue: by arrival, on any rack, data at random.

    Delay scheduling finds a slot beside a replica for nearly every map, so that maps read within their rack.
    """

    name: str = "Yarn-CS"

    def place(self, job: RackJob, racks: int, waiting_slots: Ints, chance: np.random.Generator) -> JobPlace:
        """By arrival, on all racks."""
        del racks, waiting_slots, chance
        return JobPlace((1.0, job.arrival_s), None, 0.0)


@dataclass(frozen=True)
class ShortestFirst:
    """The job with the least work goes first, on any rack; a job that runs keeps its slots."""

    name: str = "shortest first"

    def place(self, job: RackJob, racks: int, waiting_slots: Ints, chance: np.random.Generator) -> JobPlace:
        """By work, on all racks."""
        del racks, waiting_slots, chance
        return JobPlace((1.0, work_s(job), job.arrival_s), None, 0.0)


@dataclass(frozen=True)
class FairShare:
    """Free slots go to the jobs that run on the fewest, on any rack; a job that runs keeps its slots."""

    name: str = "fair share"

    def place(self, job: RackJob, racks: int, waiting_slots: Ints, chance: np.random.Generator) -> JobPlace:
        """By slots in use, on all racks."""
        del racks, waiting_slots, chance
        return JobPlace((1.0, job.arrival_s), None, 0.0, fair=True)


def work_s(job: RackJob) -> float:
    """Time of all tasks of a job, slot-seconds."""
    return sum(stage.tasks * stage.task_s for stage in job.stages)


@dataclass(frozen=True)
class Planned:
    """Corral: the plan's racks and priorities, and data on the plan's racks; jobs without a plan as Yarn.

    Attributes:
        racks_of: racks of each planned job, by name.
        priority: priority of each planned job, by name; the smallest goes first.
        data_placed: whether the data is where the plan wants it; else it is spread at random.
    """

    racks_of: Mapping[str, Sequence[int]]
    priority: Mapping[str, int]
    data_placed: bool = True

    @property
    def name(self) -> str:
        """Name for tables."""
        return "Corral" if self.data_placed else "LocalShuffle"

    def place(self, job: RackJob, racks: int, waiting_slots: Ints, chance: np.random.Generator) -> JobPlace:
        """The plan's racks, and the plan's priority before all jobs without a plan."""
        if job.name not in self.racks_of:
            return YarnLike().place(job, racks, waiting_slots, chance)
        own = np.array(self.racks_of[job.name], dtype=np.int64)
        remote = 0.0 if self.data_placed else remote_share(len(own), racks)
        return JobPlace((0.0, float(self.priority[job.name])), own, remote)


def remote_share(own: int, racks: int) -> float:
    """Share of blocks with no replica on a job's racks, when replicas are on two racks at random.

    Args:
        own: number of the job's racks.
        racks: number of all racks.
    """
    if own >= racks:
        return 0.0
    return (racks - own) * (racks - own - 1) / (racks * (racks - 1))
