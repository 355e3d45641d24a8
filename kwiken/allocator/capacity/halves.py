"""Recorded requests in two halves: sizes are searched on one and checked on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Ints
from kwiken.model.profile import Profile

MAX_BLOCKS: Final = 20  # blocks of time that go to the halves in turn: slow requests come in bursts


@dataclass(frozen=True)
class RecordedHalves:
    """Requests of a profile that sizes are searched on, and those that they are checked on.

    Attributes:
        searched: (m,) indices of the requests that trials draw from, at least one.
        checked: (k,) indices of the requests that the simulation of the whole service draws from, at least
            one.
    """

    searched: Ints
    checked: Ints

    @classmethod
    def of(cls, profile: Profile) -> RecordedHalves:
        """Blocks of time in turn, so that both halves see faults that begin, move and end.

        A profile of a single request has it in both halves.
        """
        order = np.argsort(profile.started_s, kind="stable")
        length = max(1, -(-len(order) // MAX_BLOCKS))
        odd = np.arange(len(order)) // length % 2 == 1
        return cls(order[~odd], order[odd]) if odd.any() else cls.same(profile)

    @classmethod
    def same(cls, profile: Profile) -> RecordedHalves:
        """All requests on both sides: sizes are checked on the requests that they were searched on."""
        every = np.arange(profile.requests)
        return cls(every, every)
