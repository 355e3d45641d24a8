"""Replicas that stand still now and then: garbage collection, a stolen core, a frozen machine.

A paused replica is dealt with by a change of time. Its own clock stands still while it is paused; what it
does in between follows that clock as if nothing had happened. So every queueing rule below knows one kind of
time only, and pauses are exact for all of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from math import inf, nextafter
from typing import Final, Protocol

import numpy as np

from kwiken._errors import InputError
from kwiken._profile import Floats
from kwiken.queueing._law import Law

CHUNK: Final = 256  # pauses that are drawn at once


@dataclass(frozen=True, kw_only=True)
class Pauses:
    """How replicas pause: exponential stretches of work, pauses of a given law between them.

    Attributes:
        share: of the time that a replica stands still, below 1.
        length: law of a pause's length.
        replicas: how many of the stage's replicas pause, the first ones; None for all.

    Raises:
        InputError: for a share that leaves no time to work, or pauses without length.
    """

    share: float
    length: Law
    replicas: int | None = None

    def __post_init__(self) -> None:
        """Refuse a share that leaves no time to work."""
        if not 0 <= self.share < 1:
            raise InputError(f"must be a share from 0 to below 1, not {self.share}", where="pauses.share")
        if self.share and not self.length.mean_ms > 0:
            raise InputError("must be a law of a mean above 0", where="pauses.length")


class Clock(Protocol):
    """A replica's own time, in which it works as if nothing had happened. Milliseconds, from moment 0."""

    def worked(self, moment: float) -> float:
        """Own time at a moment."""

    def moment(self, worked: float) -> float:
        """The first moment at which it has worked so long."""

    def worked_at(self, moments: Floats) -> Floats:
        """(n,): own time at moments of which the last is the greatest."""

    def moments_at(self, worked: Floats) -> Floats:
        """(n,): the first moments at which it has worked so long; of these the last is the greatest."""


class PausingClock:
    """A replica's own time, which stands still while it pauses. It runs from moment 0; milliseconds.

    Pauses are drawn as far as somebody asks, so the answer does not depend on the order of questions.

    Args:
        pauses: how it pauses.
        rng: of this replica's pauses alone.
    """

    def __init__(self, pauses: Pauses, rng: np.random.Generator) -> None:
        self._pauses = pauses
        self._rng = rng
        self._between = pauses.length.mean_ms * (1 - pauses.share) / pauses.share if pauses.share else 0.0
        self._worked: list[float] = []  # own time at which each pause begins
        self._begins: list[float] = []  # moment at which it begins
        self._ends: list[float] = []  # moment at which it ends
        self._stood: list[float] = [0.0]  # time stood still before each pause, and after the last
        if pauses.share:
            self._draw()

    def worked(self, moment: float) -> float:
        """Own time at a moment."""
        while self._begins and self._begins[-1] <= moment:
            self._draw()
        at = bisect_right(self._begins, moment)
        if at and moment < self._ends[at - 1]:
            return self._worked[at - 1]
        return moment - self._stood[at]

    def moment(self, worked: float) -> float:
        """The first moment at which it has worked so long."""
        while self._worked and self._worked[-1] < worked:
            self._draw()
        return worked + self._stood[bisect_left(self._worked, worked)]

    def worked_at(self, moments: Floats) -> Floats:
        """(n,): own time at moments of which the last is the greatest."""
        self.worked(float(moments[-1]) if len(moments) else 0.0)
        if not self._begins:
            return moments
        at = np.searchsorted(self._begins, moments, side="right")
        running = moments - np.asarray(self._stood)[at]
        last = np.maximum(at - 1, 0)
        stands = (at > 0) & (moments < np.asarray(self._ends)[last])
        return np.where(stands, np.asarray(self._worked)[last], running)

    def moments_at(self, worked: Floats) -> Floats:
        """(n,): the first moments at which it has worked so long; of these the last is the greatest."""
        self.moment(float(worked[-1]) if len(worked) else 0.0)
        if not self._worked:
            return worked
        at = np.searchsorted(self._worked, worked, side="left")
        return np.asarray(worked + np.asarray(self._stood)[at])

    def _draw(self) -> None:
        """Some more pauses."""
        runs = self._rng.standard_exponential(CHUNK) * self._between
        lengths = self._pauses.length.draw(self._rng, CHUNK)
        worked = self._worked[-1] if self._worked else 0.0
        for run, length in zip(runs.tolist(), lengths.tolist(), strict=True):
            worked += run
            begins = worked + self._stood[-1]
            self._worked.append(worked)
            self._begins.append(begins)
            self._ends.append(begins + length)
            self._stood.append(self._stood[-1] + length)


def clocks(pauses: Pauses | None, replicas: int, rng: np.random.Generator) -> list[Clock | None]:
    """A clock for each replica; None for one that never pauses."""
    if pauses is None or not pauses.share:
        return [None] * replicas
    pausing = replicas if pauses.replicas is None else min(pauses.replicas, replicas)
    own: list[Clock | None] = [PausingClock(pauses, child) for child in rng.spawn(pausing)]
    return own + [None] * (replicas - pausing)


def goes_on_at(clock: Clock, now: float) -> float:
    """When a replica works again: at the end of the pause that it is in; `now` where it is in none."""
    own = clock.worked(now)
    return clock.moment(nextafter(own, inf)) if clock.moment(own) < now else now
