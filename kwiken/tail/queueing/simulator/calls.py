"""Calls of one stage of the queueing simulator, and their outcomes."""

from __future__ import annotations

from collections.abc import Callable
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
