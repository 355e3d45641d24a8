"""Pauses of a stage's only replica: unlike with several replicas, calls have no other to go to.

Replica choice avoids a replica that does not answer, so a pause of one of several catches the calls of one
visit. A single replica that pauses holds up every call that comes meanwhile. The load model knows a pause as
the rest of the calls that it caught; here the pause occupies the replica instead, and later calls queue
behind it. The first of them comes earlier than it would at one of several replicas, and so waits longer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.tail.queueing.load import LoadModel
from kwiken.tail.queueing.simulator import Primaries


@dataclass(frozen=True)
class LonePauses:
    """What pauses do to the calls of a stage with a single replica; arrays of any one shape.

    Attributes:
        held_ms: time for which a call's replica is paused, milliseconds; of the calls of one request that met
            the same pause, one has it.
        within_rest_ms: part of a call's rest that is waiting for the end of a pause, milliseconds.
    """

    held_ms: Floats
    within_rest_ms: Floats

    @classmethod
    def of(cls, model: LoadModel, stage: str, rows: Ints, primaries: Primaries, factor: float) -> LonePauses:
        """Pauses of a stage in some requests, (m, width).

        Nothing is held where pauses are not known, or where the stage was recorded with a single replica: all
        calls that waited then are known as caught.

        Args:
            rows: (m,) indices of the requests in the profile.
            factor: load as a multiple of the profile's.
        """
        shape = primaries.rest_ms.shape
        stalls, recorded = model.stalls.get(stage), model.stages[stage].station.replicas
        if stalls is None or recorded is None or recorded == 1 or not primaries.rest_ms.size:
            return cls(np.zeros(shape), np.zeros(shape))
        known = stalls.caught[rows] & ~np.isnan(primaries.rest_ms)
        within: Floats = np.where(known, primaries.rest_ms, 0.0)
        longest = within.argmax(axis=1, keepdims=True)
        longest_ms = np.take_along_axis(within, longest, axis=1)
        longer_ms = stalls.extra_wait_ms(factor * recorded) - stalls.extra_wait_ms(factor)
        held = np.zeros(shape)
        np.put_along_axis(held, longest, np.where(longest_ms > 0, longest_ms + longer_ms, 0.0), axis=1)
        return cls(held, within)

    def at(self, place: Ints) -> LonePauses:
        """(k,): pauses of some calls.

        Args:
            place: (k,) flat positions of the calls.
        """
        return LonePauses(self.held_ms.ravel()[place], self.within_rest_ms.ravel()[place])

    def added(self, work: Floats, rest: Floats) -> tuple[Floats, Floats]:
        """Work and rest of the calls at a single replica, milliseconds, which pauses occupy.

        Args:
            work: work of each call, milliseconds.
            rest: rest of each call, milliseconds.
        """
        return work + self.held_ms, np.maximum(0.0, rest - self.within_rest_ms)
