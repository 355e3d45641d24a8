"""Draws from recorded requests for a sizing: halves for search and check, resamples, and arrivals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.model.profile.profile import Profile
from kwiken.tail.queueing.simulator.network import poisson_arrivals

ARRIVAL_BLOCKS: Final = 10  # blocks of gaps in a recording; few long ones keep slow changes of the rate
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
        order, block = _blocks(profile)
        odd = block % 2 == 1
        return cls(order[~odd], order[odd]) if odd.any() else cls.same(profile)

    @classmethod
    def same(cls, profile: Profile) -> RecordedHalves:
        """All requests on both sides: sizes are checked on the requests that they were searched on."""
        every = np.arange(profile.requests)
        return cls(every, every)


def resampled_requests(profile: Profile, rng: np.random.Generator) -> Ints:
    """(m,): indices of recorded requests as another recording might have them: blocks of time, redrawn."""
    order, block = _blocks(profile)
    count = int(block[-1]) + 1
    return np.concatenate([order[block == one] for one in rng.integers(count, size=count).tolist()])


def _blocks(profile: Profile) -> tuple[Ints, Ints]:
    """(n,) indices of the requests in order of time, and (n,) number of the block of each, from 0."""
    order = np.argsort(profile.started_s, kind="stable")
    return order, np.arange(len(order)) // max(1, -(-len(order) // MAX_BLOCKS))


def recorded_arrivals(profile: Profile, rate_per_s: float, count: int, rng: np.random.Generator) -> Floats:
    """(count,): arrival times at a rate, ascending, milliseconds: recorded gaps in blocks, with their bursts.

    Blocks begin anywhere in the recording, whose end is followed by its beginning. Time is scaled to the
    rate. Where the recording has no times, arrivals are a Poisson process.

    Args:
        rate_per_s: mean number of requests a second.
        count: number of requests, 1 or more.
    """
    gaps = np.diff(np.sort(profile.started_s))
    if not gaps.sum() > 0:
        return poisson_arrivals(rate_per_s, count, rng)
    length = -(-len(gaps) // ARRIVAL_BLOCKS)
    begins = rng.integers(len(gaps), size=-(-count // length))
    drawn = gaps[(begins[:, None] + np.arange(length)) % len(gaps)].ravel()[:count]
    if not drawn.sum() > 0:  # a few gaps, all of them 0
        return poisson_arrivals(rate_per_s, count, rng)
    return np.cumsum(drawn * (count * 1e3 / rate_per_s / drawn.sum()))
