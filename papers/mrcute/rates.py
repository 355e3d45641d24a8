"""Rates and selectivities of a MapReduce job, from the tasks of earlier runs or of a run on one machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kwiken.base.errors import InputError
from kwiken.batch.jobs.mapreduce.formulas import MapReduceProfile


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
