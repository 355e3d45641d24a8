"""Pauses of replicas: a paused replica works on nothing, and the calls that it has wait."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution

# Steps that spread points evenly over the unit interval (golden ratio) and the unit square (plastic number),
# however many points there are.
GOLDEN: Final = (math.sqrt(5.0) - 1.0) / 2.0
SPREAD: Final = (0.7548776662466927, 0.5698402909980532)


@dataclass(frozen=True)
class Pauses:
    """Pauses of a stage's replicas: each runs for an exponential time, is paused, runs again, and so on.

    Pauses are few and long, and a p99 hangs on them. So their number and their lengths are spread evenly over
    what is possible; the moments are random.

    Attributes:
        per_ms: pauses of one replica in a millisecond of its running time, 0 or more.
        length: distribution of the length of a pause.

    Raises:
        InputError: for a rate that is negative or not finite.
    """

    per_ms: float
    length: EmpiricalDistribution

    def __post_init__(self) -> None:
        """Refuse a rate that is negative or not finite."""
        if not 0 <= self.per_ms < math.inf:
            raise InputError(f"must be a finite number >= 0, not {self.per_ms}", where="pauses.per_ms")

    @property
    def mean_ms(self) -> float:
        """Mean length of a pause, milliseconds."""
        return float(self.length.mass @ self.length.values)

    def drawn(self, replicas: int, until_ms: float, rng: np.random.Generator) -> list[PausedClock]:
        """Clocks of some replicas. A replica's pauses are the same however many others there are.

        Args:
            replicas: number of replicas, 1 or more.
            until_ms: time until which pauses begin, milliseconds.
        """
        first, running_ms = rng.random(2), until_ms / (1.0 + self.per_ms * self.mean_ms)
        clocks = []
        for number, own in enumerate(rng.spawn(replicas)):
            count = int(self.per_ms * running_ms + (first[0] + number * GOLDEN) % 1.0)
            levels = (first[1] + number * SPREAD[0] + np.arange(count) * SPREAD[1]) % 1.0
            length = own.permutation(self.length.quantile(levels))
            begin = np.sort(own.random(count)) * running_ms + np.cumsum(length) - length
            clocks.append(PausedClock(begin, length))
        return clocks


class PausedClock:
    """Time of one replica, and the part of it in which the replica runs; milliseconds.

    Args:
        begin_ms: (k,) begin of each pause, ascending; none begins before the one before has ended.
        length_ms: (k,) length of each pause.
    """

    __slots__ = ("_before", "_begin", "_end", "_paused", "_ran")

    def __init__(self, begin_ms: Floats, length_ms: Floats) -> None:
        self._paused = np.concatenate(([0.0], np.cumsum(length_ms)))  # by number of pauses: their length
        self._ran = begin_ms - self._paused[:-1]  # by pause: running time before
        self._begin: Sequence[float] = begin_ms.tolist()
        self._end: Sequence[float] = (begin_ms + length_ms).tolist()
        self._before: Sequence[float] = self._paused.tolist()

    def served(self, at: float, work: float) -> tuple[float, float]:
        """Moments at which work begins and ends, milliseconds.

        Args:
            at: moment at which the replica takes the work up, milliseconds.
            work: running time that the work needs, milliseconds.
        """
        place = bisect_right(self._begin, at)
        if place and at < self._end[place - 1]:
            at = self._end[place - 1]
        end = at + work
        while place < len(self._begin) and end > self._begin[place]:
            end += self._end[place] - self._begin[place]
            place += 1
        return at, end

    def ran(self, at: float) -> float:
        """Running time until a moment, milliseconds.

        Args:
            at: the moment, milliseconds.
        """
        place = bisect_right(self._begin, at)
        if place and at < self._end[place - 1]:
            at = self._end[place - 1]
        return at - self._before[place]

    def running(self, at_ms: Floats) -> Floats:
        """(n,): running time until each of some moments, milliseconds."""
        place = np.searchsorted(self._begin, at_ms, side="right")
        least = np.concatenate(([0.0], self._ran))[place]  # during a pause nothing is added
        return np.maximum(least, at_ms - self._paused[place])

    def moments(self, ran_ms: Floats) -> Floats:
        """(n,): first moments at which the replica has run for so long, milliseconds."""
        return np.asarray(ran_ms + self._paused[np.searchsorted(self._ran, ran_ms, side="left")])
