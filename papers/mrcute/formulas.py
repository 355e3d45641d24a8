"""MRCute's formulas: completion time of a MapReduce job over machines and bandwidth.

A stage takes its waves times the data of a task over the rate of the stage's bottleneck. Map, shuffle and
reduce run one after another. All functions take arrays of resources and never loop over them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError

MAX_TASKS_OF_JOB: Final = 1 << 40


@dataclass(frozen=True, kw_only=True)
class MapReduceProfile:
    """Rates and selectivities of a job, learned from earlier runs.

    Attributes:
        s_map: bytes into the maps over bytes out of the maps.
        s_reduce: bytes into the reduces over bytes out of the reduces.
        b_map: bytes per second that one map task reads where nothing else is the bottleneck.
        b_reduce: bytes per second that one reduce task writes where nothing else is the bottleneck.
        b_disk: bytes per second of a disk under the access of MapReduce.
    """

    s_map: float
    s_reduce: float
    b_map: float
    b_reduce: float
    b_disk: float

    def __post_init__(self) -> None:
        for name in ("s_map", "s_reduce", "b_map", "b_reduce", "b_disk"):
            if not getattr(self, name) > 0:
                raise InputError(f"must be above 0, not {getattr(self, name)}", where=name)


@dataclass(frozen=True, kw_only=True)
class MapReduceJob:
    """MapReduce job: bytes of input, tasks, and what it does with its data.

    Attributes:
        input_bytes: bytes of input, 0 or more.
        n_map: number of map tasks, 1 or more.
        n_reduce: number of reduce tasks; 0 for a job without shuffle.
        remote_maps: whether maps read over the network, so that its bandwidth bounds their rate.
    """

    input_bytes: float
    n_map: int
    n_reduce: int
    profile: MapReduceProfile
    remote_maps: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.input_bytes) and self.input_bytes >= 0):
            raise InputError(f"must be 0 or more, not {self.input_bytes}", where="input_bytes")
        for name, least in (("n_map", 1), ("n_reduce", 0)):
            if not least <= getattr(self, name) <= MAX_TASKS_OF_JOB:
                raise InputError(f"must be {least} or more, not {getattr(self, name)}", where=name)


@dataclass(frozen=True, kw_only=True)
class SlotsOfMachine:
    """Tasks that one machine runs at once.

    Attributes:
        map_slots: number of maps at once, 1 or more.
        reduce_slots: number of reduces at once, 1 or more.
        share: whether the tasks of a machine share its disk and its bandwidth; else each task has all of it,
            as the published formulas have it.
    """

    map_slots: int
    reduce_slots: int
    share: bool = False

    def __post_init__(self) -> None:
        for name in ("map_slots", "reduce_slots"):
            if getattr(self, name) < 1:
                raise InputError(f"must be 1 or more, not {getattr(self, name)}", where=name)


@dataclass(frozen=True)
class StageTimes:
    """Times of the three stages over an array of resources, seconds.

    Attributes:
        map_waves: waves of maps.
        reduce_waves: waves of reduces.
    """

    map: Floats
    shuffle: Floats
    reduce: Floats
    map_waves: Floats
    reduce_waves: Floats

    @property
    def total(self) -> Floats:
        """Completion time, seconds."""
        return self.map + self.shuffle + self.reduce


def _waves(tasks: int, slots: Floats) -> Floats:
    """Waves of tasks over slots; whole numbers are divided exactly."""
    whole = slots.astype(np.int64)
    return (-(-tasks // whole)).astype(np.float64)


def _checked(values: Any, name: str, least: float) -> Floats:
    found = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if not (np.isfinite(found) | (found == np.inf)).all() or (found < least).any() or (found <= 0).any():
        raise InputError(f"must be numbers above 0, {least:g} or more", where=name)
    return found


def reserved_times(job: MapReduceJob, slots: SlotsOfMachine, machines: Any, bandwidth: Any) -> StageTimes:
    """Stage times with a reservation of machines and of the bandwidth between them.

    Args:
        machines: numbers of machines, whole and 1 or more.
        bandwidth: bytes per second of a machine to the others; one number, or one for each of `machines`.

    Raises:
        InputError: a number that is no number, or too small.
    """
    n, b = np.broadcast_arrays(_checked(machines, "machines", 1), _checked(bandwidth, "bandwidth", 0))
    p = job.profile
    map_share, reduce_share = (slots.map_slots, slots.reduce_slots) if slots.share else (1, 1)
    rate = np.minimum(p.b_disk / map_share, p.b_map)
    if job.remote_maps:
        rate = np.minimum(rate, b / map_share)
    map_waves = _waves(job.n_map, n * slots.map_slots)
    times = map_waves * (job.input_bytes / job.n_map) / rate
    if job.n_reduce == 0:
        none = np.zeros_like(times)
        return StageTimes(times, none, none, map_waves, none)
    reduce_waves = _waves(job.n_reduce, n * slots.reduce_slots)
    disk, net = p.b_disk / reduce_share, b / reduce_share
    each = job.input_bytes / (p.s_map * job.n_reduce)
    shuffle = reduce_waves * each * (1 / np.minimum(disk, net) + 1 / disk)
    reduce = reduce_waves * (each / p.s_reduce) / np.minimum(disk, p.b_reduce)
    return StageTimes(times, shuffle, reduce, map_waves, reduce_waves)
