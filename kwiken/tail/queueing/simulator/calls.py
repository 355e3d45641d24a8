"""Calls of one stage of the queueing simulator: their attempts, when a race was won, and their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats

Ints = NDArray[np.int64]
DrawCopy = Callable[[float], tuple[float, float]]  # work and rest of a copy, given the rest of its call


@dataclass(frozen=True)
class SimulatedCalls:
    """Primary calls of one stage, in the order of arrival.

    Attributes:
        arrival: (m,) arrival times, milliseconds, ascending.
        work: (m,) times that the calls occupy their replicas, milliseconds.
        rest: (m,) times that the calls take besides, milliseconds.
        pinned: (m,) index of the replica of a background call; -1 for a call of the stage.
    """

    arrival: Floats
    work: Floats
    rest: Floats
    pinned: Ints

    @property
    def count(self) -> int:
        """Number of calls."""
        return len(self.arrival)


@dataclass(frozen=True)
class CallOutcomes:
    """Outcome of the calls of one stage.

    Attributes:
        latency_ms: (m,) time from arrival to the first answer.
        replica: (m,) index of the replica of the first attempt.
        copies: (m,) number of copies sent.
        busy_ms: (replicas,) work done, copies and background included.
        extra_work_ms: work caused by copies: work of all attempts less the work of first ones.
    """

    latency_ms: Floats
    replica: Ints
    copies: Ints
    busy_ms: Floats
    extra_work_ms: float


class SimulatedAttempts:
    """Attempts of one stage's calls: primary attempts have their calls' numbers, copies the next ones.

    Args:
        calls: number of calls, 0 or more.
    """

    __slots__ = ("_answered_at", "_calls", "_owners", "_racing")

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._owners: list[int] = []  # by copy: its call
        self._racing: dict[int, list[int]] = {}  # by call with a copy and without an answer: its attempts
        self._answered_at: dict[int, float] = {}  # by call that had a copy and has an answer

    def of(self, call: int) -> list[int]:
        """Attempts of a call without an answer, the primary first."""
        return self._racing.get(call) or [call]

    def call_of(self, attempt: int) -> int:
        """Call of an attempt."""
        return attempt if attempt < self._calls else self._owners[attempt - self._calls]

    def add_copy(self, call: int) -> int:
        """Number of a new copy of a call."""
        number = self._calls + len(self._owners)
        self._owners.append(call)
        self._racing.setdefault(call, [call]).append(number)
        return number

    def is_racing(self, call: int) -> bool:
        """Whether a call has a copy and no answer."""
        return call in self._racing

    def is_answered(self, call: int) -> bool:
        """Whether a call that had a copy is answered."""
        return call in self._answered_at

    def win(self, attempt: int, now: float) -> Iterable[int]:
        """Record the first answer of a call in a race; returns the attempts that lost."""
        call = self.call_of(attempt)
        self._answered_at[call] = now
        return (other for other in self._racing.pop(call) if other != attempt)

    def copies(self) -> Ints:
        """(m,): number of copies of each call."""
        return np.bincount(np.asarray(self._owners, np.int64), minlength=self._calls)

    def set_answers(self, answers: Floats) -> None:
        """Write the times of the first answers of races into (m,) times of the primary attempts' answers."""
        answers[list(self._answered_at)] = list(self._answered_at.values())
