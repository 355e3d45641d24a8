"""Predictions of MRCute for a simulated job: rates from a run on one machine, disks measured on their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from papers.mrcute.executor import (
    DISK_MBPS,
    MAP_SLOTS,
    MBIT_PER_MB,
    REDUCE_SLOTS,
    START_UP_S,
    TASK_SPREAD,
    SimulatedCluster,
    SimulatedJob,
    SimulatedStage,
    maps_of,
)
from papers.mrcute.formulas import (
    MapReduceJob,
    MapReduceProfile,
    SlotsOfMachine,
    reserved_times,
)

SLOTS: Final = SlotsOfMachine(map_slots=MAP_SLOTS, reduce_slots=REDUCE_SLOTS)
REDUCES_OF_SAMPLE: Final = REDUCE_SLOTS  # a run on one machine has one wave of reduces


@dataclass(frozen=True)
class TaskFlow:
    """Time and bytes of one task, or sums over tasks.

    Attributes:
        seconds: time in the user's function with its reads and writes, above 0 for the sum of all.
        bytes_in: bytes that it consumed.
        bytes_out: bytes that it produced.
    """

    seconds: float
    bytes_in: float
    bytes_out: float


def fit_profile(
    maps: Iterable[TaskFlow], reduces: Iterable[TaskFlow], *, disk_bytes_per_s: float
) -> MapReduceProfile:
    """Learn what a job does with its data: ratios of sums over tasks.

    The rate of a reduce is of bytes produced, as the reduce term of the formulas counts them.

    Args:
        reduces: flows of the reduce tasks; none for a job without reduces.
        disk_bytes_per_s: bandwidth of a disk under the access of MapReduce, measured on its own: the shuffle
            of a run on one machine says nothing of it.

    Raises:
        InputError: no map task, or tasks without time or bytes.
    """
    mapped, reduced = _sum(maps), _sum(reduces)
    if mapped.seconds <= 0 or mapped.bytes_in <= 0:
        raise InputError("no map task took time and read bytes, so no rate can be learned", where="maps")
    s_map = mapped.bytes_in / mapped.bytes_out if mapped.bytes_out > 0 else float("inf")
    with_reduces = reduced.seconds > 0 and reduced.bytes_out > 0
    return MapReduceProfile(
        s_map=s_map,
        s_reduce=reduced.bytes_in / reduced.bytes_out if with_reduces and reduced.bytes_in > 0 else 1.0,
        b_map=mapped.bytes_in / mapped.seconds,
        b_reduce=reduced.bytes_out / reduced.seconds if with_reduces else float("inf"),
        b_disk=disk_bytes_per_s,
    )


def _sum(flows: Iterable[TaskFlow]) -> TaskFlow:
    every = list(flows)
    return TaskFlow(
        sum(one.seconds for one in every),
        sum(one.bytes_in for one in every),
        sum(one.bytes_out for one in every),
    )


@dataclass(frozen=True)
class StageError:
    """Predicted times of the three stages, seconds; sums over the MapReduce stages of a job."""

    map_s: float
    shuffle_s: float
    reduce_s: float

    @property
    def total_s(self) -> float:
        """Completion time, seconds."""
        return self.map_s + self.shuffle_s + self.reduce_s


def profile_job(job: SimulatedJob, rng: np.random.Generator) -> tuple[list[MapReduceProfile], float]:
    """Profiles of a job's stages from a run of its sample on one machine, and the time of that run, s."""
    disk = float(
        DISK_MBPS * rng.lognormal(0.0, 0.02)
    )  # the machine that profiles is chosen as an average one
    profiles, took = [], 0.0
    for stage in job.stages:
        profile, time = _profile_stage(stage, job.sample_gb, disk, rng)
        profiles.append(profile)
        took += time
    return profiles, took


def _profile_stage(
    stage: SimulatedStage, sample_gb: float, disk: float, rng: np.random.Generator
) -> tuple[MapReduceProfile, float]:
    megabits = 1000 * MBIT_PER_MB * sample_gb * stage.share
    maps = maps_of(stage, sample_gb)
    each, out = megabits / maps, megabits / maps / stage.s_map
    map_s = START_UP_S + each / min(disk, stage.map_mbps) * rng.lognormal(0, TASK_SPREAD, maps)
    fetched = megabits / stage.s_map / REDUCES_OF_SAMPLE
    written = fetched / stage.s_reduce
    reduce_s = written / min(disk, stage.reduce_mbps) * rng.lognormal(0, TASK_SPREAD, REDUCES_OF_SAMPLE)
    profile = fit_profile(
        [TaskFlow(float(time), each, out) for time in map_s],
        [TaskFlow(float(time), fetched, written) for time in reduce_s],
        disk_bytes_per_s=disk,
    )
    merged = START_UP_S + 2 * fetched / disk
    waves = -(-maps // MAP_SLOTS)
    return profile, float(waves * map_s.mean() + merged + reduce_s.max())


def predict(
    job: SimulatedJob,
    profiles: list[MapReduceProfile],
    cluster: SimulatedCluster,
    bandwidth_mbps: float,
    *,
    know_disks: bool = True,
) -> StageError:
    """Predict a job by the published formulas.

    Disks are known from their own benchmark: the slowest bounds a stage of one wave, their harmonic mean one
    of several waves.

    Args:
        bandwidth_mbps: bandwidth that each machine has to the others, megabits per second.
        know_disks: whether the statistics of each disk are used; else one speed for all.
    """
    machines = cluster.disks_mbps.size
    disks = cluster.disks_mbps
    several = float(1 / np.mean(1 / disks)) if know_disks else DISK_MBPS
    single = float(disks.min()) if know_disks else DISK_MBPS
    sums = np.zeros(3)
    for stage, profile in zip(job.stages, profiles, strict=True):
        maps = maps_of(stage, job.input_gb)
        of_maps = _times(stage, job, profile, maps, machines, bandwidth_mbps, several)
        waves = -(-maps // (machines * MAP_SLOTS))
        of_reduces = _times(stage, job, profile, maps, machines, bandwidth_mbps, single)
        sums += [of_maps[0] if waves > 1 else of_reduces[0], of_reduces[1], of_reduces[2]]
    return StageError(*(float(time) for time in sums))


def _times(
    stage: SimulatedStage,
    job: SimulatedJob,
    profile: MapReduceProfile,
    maps: int,
    machines: int,
    bandwidth_mbps: float,
    disk: float,
) -> Floats:
    described = MapReduceJob(
        input_bytes=1000 * MBIT_PER_MB * job.input_gb * stage.share,  # megabits, as all rates here
        n_map=maps,
        n_reduce=REDUCE_SLOTS * machines,
        profile=MapReduceProfile(
            s_map=profile.s_map,
            s_reduce=profile.s_reduce,
            b_map=profile.b_map,
            b_reduce=profile.b_reduce,
            b_disk=disk,
        ),
    )
    found = reserved_times(described, SLOTS, machines, bandwidth_mbps)
    return np.array([found.map[0], found.shuffle[0], found.reduce[0]])
