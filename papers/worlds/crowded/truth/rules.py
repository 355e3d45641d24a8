"""Constants of the crowded world, committed before the world was run (docs/allocate/crowded.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

TYPES: Final = 10  # machine types of one cluster, drawn from the measured ones
NODES_OF_TYPE: Final = 8
CORES: Final = (4, 8, 12, 16)  # of a node, drawn by type
GB_PER_CORE: Final = (1.5, 2.0, 4.0)  # of a node, drawn by type
CORES_OF_REFERENCE: Final = 16.0  # of the node that demands are shares of
SPREAD_OF_CAPACITY: Final = 0.25  # log units, by type and resource
HISTORY_ROWS: Final = 8  # measured programs from which those that are known whole are made
BLEND_NOISE: Final = 0.03  # log units, of a program's speed by type

PROGRAMS: Final = 60  # distinct ones; the more popular half was profiled before the run
KNOWN_WHOLE: Final = 24  # programs that were measured everywhere
JOBS: Final = 600
PROGRAM_CORES: Final = (1, 2, 4)
PROGRAM_CORE_SHARES: Final = (0.4, 0.3, 0.3)
MIN_GB_PER_CORE, MAX_GB_PER_CORE = 0.5, 1.5  # of a reservation
MEDIAN_S: Final = 300.0  # of a program alone on its best type, in seconds
SPREAD_OF_DURATIONS: Final = 0.5  # log units

BUSY_ALPHA, BUSY_BETA = 4.0, 3.0  # of the mean share of its reserved cores that a program keeps busy
BUSY_CONCENTRATION: Final = 8.0  # of the share at one time around that mean
LEVEL_S: Final = 120.0  # mean time between two changes of that share, in seconds
PEAK_OVER_RESERVED: Final = (0.4, 1.5)  # memory at its peak, as a share of what is reserved
BASE_OVER_PEAK: Final = 0.6  # memory before the peak
PEAK_AT: Final = (0.1, 0.5)  # of the duration alone, when memory rises to its peak

MAX_LOSS: Final = 0.6  # by one resource, of a program that depends on nothing else
HALF_PRESSURE: Final = 0.6  # median pressure by which half of a program's largest loss is reached
SPREAD_OF_HALF: Final = 0.3  # log units
STEEPNESS_OF_RATES: Final = 1.5  # exponent of resources that are shared in time: bandwidths, disk, network
STEEPNESS_OF_ROOM: Final = 3.0  # exponent of resources that are shared in space: caches, address translations
SWITCHING: Final = 0.98  # share of processor time left where more is wanted than there is

SOLD_CORES: Final = 1.5  # cores that a node sells for each that it has
SOLD_MEMORY: Final = 1.2  # memory that a node sells for each GB that it has
KILL_WAIT_S: Final = 30.0  # after which a killed job joins the line again, in seconds
MAX_KILLS: Final = 5  # after which a job is given up

START_S: Final = 5.0  # before a placed job runs, in seconds, and more by its memory
START_S_PER_GB: Final = 0.5
MOVE_S: Final = 2.0  # of standing still, in seconds, and more by its memory
MOVE_S_PER_GB: Final = 1.0
PROFILE_S: Final = 60.0  # that one profiling set is taken by one look at a program
PROFILING_SETS: Final = 2
NODES_OF_SET: Final = 4  # one of the largest type, and one of each of three other types

NOISE: Final = 0.03  # of a measured speed, in log units, and of a score, in shares
SAMPLE_S: Final = 10.0  # between two observations of a job, in seconds

LOADS: Final = {
    "crowded-half": 0.5,
    "crowded-full": 1.0,
}  # reserved cores on average, as a share of all cores


class Law(StrEnum):
    """Rule that joins the losses by several resources.

    Attributes:
        PRODUCT: the shares that are left multiply, so that losses add up to less than their sum.
        WORST: only the largest loss counts.
        KNEE: only the largest counts, and each is small up to the tolerated pressure and rises by the
            pressure beyond: what schedulers suppose.
    """

    PRODUCT = "product"
    WORST = "worst"
    KNEE = "knee"


@dataclass(frozen=True)
class Rules:
    """Rules that an ablation may change; the defaults are the crowded world.

    Attributes:
        unlikeness: factor of the measured differences of log speed between machine types, 0 or more.
        sold_cores: number of cores that a node sells for each that it has, at least 1.
        kills: whether memory can run out.
        noise: standard deviation of observations, in log units and in shares of a score.
        profile_s: time that one look at a program takes, in seconds.
        sets: number of profiling sets that managers with a classification set apart.
    """

    law: Law = Law.PRODUCT
    unlikeness: float = 1.0
    sold_cores: float = SOLD_CORES
    kills: bool = True
    noise: float = NOISE
    profile_s: float = PROFILE_S
    sets: int = PROFILING_SETS


# One difference to the schedulers' model taken away at a time, fixed before the world was run.
ABLATIONS: Final = {
    "platforms more alike": Rules(unlikeness=0.25),
    "platforms more unlike": Rules(unlikeness=1.5),
    "only the worst loss counts": Rules(law=Law.WORST),
    "losses as the schedulers suppose": Rules(law=Law.KNEE),
    "no shared cores": Rules(sold_cores=1.0),
    "memory never runs out": Rules(kills=False),
    "profiling costs nothing": Rules(profile_s=0.0, sets=0),
    "exact observations": Rules(noise=0.0),
}
