"""Prioritisation: jobs in an order, each on the racks that are free first, and a schedule's objective."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.batch.racks.problem import RackProblem

Objective = Literal["makespan", "mean"]


@dataclass(frozen=True, eq=False)
class RackSchedule:
    """Racks and start of each job.

    Attributes:
        order: (J,) jobs by priority, highest first; starts never fall in this order.
        widths: (J,) number of racks of each job, from 1.
        starts_s: (J,) planned start of each job, seconds.
        lengths_s: (J,) planned time of each job, seconds.
    """

    order: Ints
    widths: Ints
    starts_s: Floats
    lengths_s: Floats

    @property
    def ends_s(self) -> Floats:
        """(J,) planned end of each job, seconds."""
        return self.starts_s + self.lengths_s

    def objective(self, arrivals_s: Floats, kind: Objective) -> float:
        """Makespan, or mean time from arrival to end, seconds."""
        ends = self.ends_s
        return float(ends.max() if kind == "makespan" else (ends - arrivals_s).mean())

    def racks_of(self, racks: int) -> list[list[int]]:
        """Racks of each job, ascending: of those free at its start, the ones that are free longest.

        Args:
            racks: number of racks, from 0 in the result.
        """
        free = np.zeros(racks)
        found: list[list[int]] = [[] for _ in range(len(self.order))]
        ends = self.ends_s
        for job in self.order:
            chosen = np.argsort(free, kind="stable")[: self.widths[job]]
            free[chosen] = ends[job]
            found[job] = sorted(chosen.tolist())
        return found


def source_order(problem: RackProblem, widths: Ints) -> Ints:
    """Order of the source: by arrival, then the widest first, then the longest.

    Jobs that arrive together are thus in the order of a batch.

    Args:
        widths: (J,) number of racks of each job.
    """
    return np.lexsort((-problem.lengths(widths), -widths, problem.arrivals_s))


def starts_of(
    order: Sequence[int],
    widths: Sequence[int],
    lengths_s: Sequence[float],
    arrivals_s: Sequence[float],
    racks: int,
) -> list[float]:
    """Start of each job when jobs take, one after the other, the racks that are free first.

    Which racks those are does not matter for the starts, so that the moments at which racks get free are kept
    as one sorted list. O(J log R) comparisons and J moves within a list of R numbers.

    Args:
        order: jobs by priority, highest first.
        widths: number of racks of each job, 1 to `racks`.
        lengths_s: planned time of each job, seconds.
        arrivals_s: moment from which each job may start, seconds.

    Returns:
        Start of each job, by job, seconds.
    """
    free = [0.0] * racks
    starts = [0.0] * len(widths)
    for job in order:
        width, start, arrival = widths[job], free[widths[job] - 1], arrivals_s[job]
        start = max(start, arrival)
        starts[job] = start
        end = start + lengths_s[job]
        del free[:width]
        at = bisect_left(free, end)
        free[at:at] = [end] * width
    return starts


def prioritise(problem: RackProblem, widths: Ints, order: Ints | None = None) -> RackSchedule:
    """Schedule of jobs with given numbers of racks.

    Args:
        widths: (J,) number of racks of each job, 1 to R.
        order: (J,) jobs by priority; None for the source's order.
    """
    order = source_order(problem, widths) if order is None else order
    lengths = problem.lengths(widths)
    starts = starts_of(
        order.tolist(), widths.tolist(), lengths.tolist(), problem.arrivals_s.tolist(), problem.racks
    )
    return RackSchedule(order, widths, np.array(starts), lengths)
