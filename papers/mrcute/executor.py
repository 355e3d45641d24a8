"""Simulated MapReduce executor: list scheduling, unequal disks, noise, outliers and skew.

It is not the model that it judges. Tasks have a start-up time, machines have disks of unequal speed, task
times scatter, some tasks are outliers, reducers get unequal parts, and the last wave is as full as it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

MAP_SLOTS, REDUCE_SLOTS = 8, 2  # of a machine, as in the source's testbed
BLOCK_MB: Final = 128.0
DISK_MBPS: Final = 250.0  # of an average disk under MapReduce
MBIT_PER_MB: Final = 8.0
START_UP_S: Final = 1.5  # of a task
DISK_SPREAD: Final = 0.08  # standard deviation of the logarithm of a disk's speed
TASK_SPREAD: Final = 0.10  # of the logarithm of a task's time
OUTLIERS: Final = 0.002  # share of tasks
OUTLIER_FACTORS: Final = (1.5, 3.0)  # by which outliers are slower, from and to
SKEW: Final = 0.05  # coefficient of variation of the reducers' parts where none is asked for


@dataclass(frozen=True)
class SimulatedStage:
    """MapReduce stage of a job; rates in megabits per second and task.

    Attributes:
        share: input over that of the whole job.
        s_map: bytes into over bytes out of the maps.
        s_reduce: bytes into over bytes out of the reduces.
        map_mbps: rate of the map function, of bytes read.
        reduce_mbps: rate of the reduce function, of bytes written.
    """

    share: float
    s_map: float
    s_reduce: float
    map_mbps: float
    reduce_mbps: float


@dataclass(frozen=True)
class SimulatedJob:
    """Job of the source's tables.

    Attributes:
        input_gb: input, in units of GB.
        sample_gb: input of the run that profiles it, in units of GB.
        stages: its stages, one after the other.
    """

    name: str
    input_gb: float
    sample_gb: float
    stages: tuple[SimulatedStage, ...]


# Sizes are the source's; rates follow from what it says of each job (Sort is bound by disks, WordCount by
# processors) and were written down before the first run.
SORT: Final = SimulatedJob("Sort", 200, 1, (SimulatedStage(1, 1, 1, 200, 400),))
WORD_COUNT: Final = SimulatedJob("WordCount", 68, 0.45, (SimulatedStage(1, 4, 4, 30, 120),))
GRIDMIX: Final = SimulatedJob(
    "Gridmix",
    200,
    16,
    (
        SimulatedStage(1, 2.5, 2, 120, 200),
        SimulatedStage(0.2, 1.5, 2, 120, 200),
        SimulatedStage(0.07, 1.2, 2, 120, 200),
    ),
)
TF_IDF: Final = SimulatedJob(
    "TF-IDF",
    68,
    3,
    (
        SimulatedStage(1, 1.5, 2, 40, 120),
        SimulatedStage(0.33, 1.2, 1, 60, 120),
        SimulatedStage(0.28, 1, 1, 60, 120),
    ),
)
LINK_GRAPH: Final = SimulatedJob(
    "LinkGraph",
    10,
    3,
    (
        SimulatedStage(1, 1, 1, 60, 120),
        SimulatedStage(1, 0.8, 1, 80, 160),
        SimulatedStage(1.25, 0.8, 1, 80, 160),
        SimulatedStage(1.5, 1, 2, 80, 160),
    ),
)
JOBS: Final = (SORT, WORD_COUNT, GRIDMIX, TF_IDF, LINK_GRAPH)


@dataclass(frozen=True)
class ObservedRun:
    """Times of one run, seconds; sums over the stages.

    Attributes:
        outlier: whether a task of the run was an outlier.
    """

    map_s: float
    shuffle_s: float
    reduce_s: float
    outlier: bool

    @property
    def total_s(self) -> float:
        """Completion time, seconds."""
        return self.map_s + self.shuffle_s + self.reduce_s


@dataclass(frozen=True)
class SimulatedCluster:
    """Machines with their disks.

    Attributes:
        disks_mbps: by machine, bandwidth of its disk under MapReduce, megabits per second.
    """

    disks_mbps: Floats

    @classmethod
    def drawn(cls, machines: int, rng: np.random.Generator) -> SimulatedCluster:
        """Machines with disks of unequal speed."""
        return cls(DISK_MBPS * rng.lognormal(0.0, DISK_SPREAD, machines))

    def first(self, machines: int) -> SimulatedCluster:
        """The first of its machines alone."""
        return SimulatedCluster(self.disks_mbps[:machines])


def maps_of(stage: SimulatedStage, input_gb: float) -> int:
    """Number of map tasks of a stage: one for each block."""
    return max(1, round(1000 * stage.share * input_gb / BLOCK_MB))


def observe(
    job: SimulatedJob,
    cluster: SimulatedCluster,
    bandwidth_mbps: float,
    rng: np.random.Generator,
    *,
    input_gb: float | None = None,
    skew: float = SKEW,
    outliers: float = OUTLIERS,
) -> ObservedRun:
    """Run a job once.

    Args:
        bandwidth_mbps: bandwidth that each machine has to the others, megabits per second.
        input_gb: input, in units of GB; None for the job's own.
        skew: coefficient of variation of the reducers' parts.
        outliers: share of tasks that are outliers.
    """
    size = job.input_gb if input_gb is None else input_gb
    times, seen = np.zeros(3), False
    for stage in job.stages:
        found, outlier = _observe_stage(stage, cluster, bandwidth_mbps, rng, size, skew, outliers)
        times += found
        seen = seen or outlier
    return ObservedRun(float(times[0]), float(times[1]), float(times[2]), seen)


def _observe_stage(
    stage: SimulatedStage,
    cluster: SimulatedCluster,
    bandwidth_mbps: float,
    rng: np.random.Generator,
    input_gb: float,
    skew: float,
    outliers: float,
) -> tuple[Floats, bool]:
    machines = cluster.disks_mbps.size
    megabits = 1000 * MBIT_PER_MB * input_gb * stage.share
    maps, reduces = maps_of(stage, input_gb), REDUCE_SLOTS * machines
    map_noise, hit = _noise(maps, rng, outliers)
    rates = np.minimum(cluster.disks_mbps, stage.map_mbps)
    ends = _list_schedule(megabits / maps / rates, map_noise, MAP_SLOTS)
    parts = rng.gamma(1 / skew**2, skew**2, reduces) if skew > 0 else np.ones(reduces)
    parts *= reduces / parts.sum()
    of_machine = np.arange(reduces) % machines
    disks = cluster.disks_mbps[of_machine]
    fetched = megabits / (stage.s_map * reduces) * parts
    shuffle_noise, hit_too = _noise(reduces, rng, outliers)
    fetch = START_UP_S + fetched * (1 / np.minimum(disks, bandwidth_mbps) + 1 / disks) * shuffle_noise
    reduce_noise, hit_last = _noise(reduces, rng, outliers)
    reduce = fetched / stage.s_reduce / np.minimum(disks, stage.reduce_mbps) * reduce_noise
    shuffled = float(fetch.max())
    times = np.array([ends, shuffled, float((fetch + reduce).max()) - shuffled])
    return times, hit or hit_too or hit_last


def _noise(n: int, rng: np.random.Generator, outliers: float) -> tuple[Floats, bool]:
    """Factors of task times around a mean of one, and whether one is an outlier."""
    factors = rng.lognormal(-(TASK_SPREAD**2) / 2, TASK_SPREAD, n)
    hit = rng.random(n) < outliers
    factors[hit] *= rng.uniform(*OUTLIER_FACTORS, int(hit.sum()))
    return factors, bool(hit.any())


def _list_schedule(task_s: Floats, noise: Floats, slots: int) -> float:
    """End of tasks that free slots take in order; each machine has its own task time, seconds."""
    free = [(0.0, machine) for machine in range(task_s.size) for _ in range(slots)]
    end = 0.0
    for factor in noise.tolist():
        at, machine = free[0]
        done = at + START_UP_S + float(task_s[machine]) * factor
        heapq.heapreplace(free, (done, machine))
        end = max(end, done)
    return end


def correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Correlation of two series; 0 where one stands still."""
    if np.std(x) == 0 or np.std(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
