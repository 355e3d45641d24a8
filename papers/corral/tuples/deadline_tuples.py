"""Machines and bandwidth that finish a MapReduce job before a deadline, with the least bandwidth for each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from papers.mrcute.formulas import MapReduceJob, SlotsOfMachine, reserved_times

HALVINGS: Final = 80  # of the interval of bandwidths, which leaves less than a double can tell
MAX_MACHINES: Final = 1_000_000


@dataclass(frozen=True)
class ReservedTuple:
    """Machines and bandwidth that finish a job in time.

    Attributes:
        n: number of machines, 1 or more.
        bandwidth: smallest sufficient bandwidth of a machine to the others, bytes per second; 0 where the job
            moves nothing between machines.
        total_s: completion time with the two, seconds.
    """

    n: int
    bandwidth: float
    total_s: float


def candidates(
    job: MapReduceJob, slots: SlotsOfMachine, deadline_s: float, *, slack: float = 0.0, n_max: int
) -> list[ReservedTuple]:
    """Smallest bandwidth for each number of machines with which a job ends before its deadline.

    Args:
        deadline_s: completion time that is wanted, seconds.
        slack: share of that time that is kept free, 0 to below 1.
        n_max: largest number of machines, 1 or more.

    Raises:
        InputError: a deadline, slack or number that is out of range.
    """
    if not (math.isfinite(deadline_s) and deadline_s > 0):
        raise InputError(f"must be above 0, not {deadline_s}", where="deadline_s")
    if not 0 <= slack < 1:
        raise InputError(f"must be from 0 to below 1, not {slack}", where="slack")
    if not 1 <= n_max <= MAX_MACHINES:
        raise InputError(f"must be from 1 to {MAX_MACHINES}, not {n_max}", where="n_max")
    machines = np.arange(1, n_max + 1, dtype=np.float64)
    budget = deadline_s * (1 - slack)
    machines = machines[reserved_times(job, slots, machines, np.inf).total <= budget]
    if not machines.size:
        return []
    moved = job.n_reduce > 0 and job.input_bytes > 0
    if job.remote_maps and job.input_bytes > 0:
        needed = _by_halving(job, slots, machines, budget)
    elif moved:
        needed = _in_closed_form(job, slots, machines, budget)
    else:
        needed = np.zeros_like(machines)
    total = reserved_times(job, slots, machines, np.where(needed > 0, needed, np.inf)).total
    return [
        ReservedTuple(int(n), float(b), float(t)) for n, b, t in zip(machines, needed, total, strict=True)
    ]


def _in_closed_form(job: MapReduceJob, slots: SlotsOfMachine, machines: Floats, budget: float) -> Floats:
    """Bandwidth at which 1/min(disk, bandwidth) + 1/disk is the time that is left for a byte of shuffle."""
    best = reserved_times(job, slots, machines, np.inf)
    share = slots.reduce_slots if slots.share else 1
    disk = job.profile.b_disk / share
    each = job.input_bytes / (job.profile.s_map * job.n_reduce)
    left = (budget - best.map - best.reduce) / (best.reduce_waves * each)
    return share / np.maximum(left - 1 / disk, 1 / disk)


def _by_halving(job: MapReduceJob, slots: SlotsOfMachine, machines: Floats, budget: float) -> Floats:
    """Least bandwidth where maps need the network too: the time falls with the bandwidth, so halve."""
    p = job.profile
    enough = max(p.b_disk, p.b_map * slots.map_slots if slots.share else p.b_map)
    low, high = np.zeros_like(machines), np.full_like(machines, enough)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        fits = reserved_times(job, slots, machines, np.maximum(middle, np.finfo(float).tiny)).total <= budget
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return high
