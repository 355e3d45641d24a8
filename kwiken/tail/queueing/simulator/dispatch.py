"""Choice of the replica of each attempt, by the dispatch rule of a station."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

import numpy as np

from kwiken.tail.queueing.simulator.calls import Ints
from kwiken.tail.queueing.simulator.fifo import FifoReplicas
from kwiken.tail.queueing.simulator.station import Dispatch

DRAWS_PER_BATCH: Final = 512  # uniform numbers drawn at once
MAX_CANDIDATES: Final = 16  # replicas whose scores are compared for one call
EQUAL_SCORES: Final = 0.8  # ratio of two scores from which on they count as equal


class Dispatcher:
    """Chooses replicas of one stage. Draws come in a fixed order, so that runs are reproducible.

    Args:
        rng: source of randomness, used whenever a copy's replica is chosen.
    """

    __slots__ = ("_count", "_replicas", "_rule", "_uniforms")

    def __init__(self, rule: Dispatch, replicas: FifoReplicas, rng: np.random.Generator) -> None:
        self._rule = rule
        self._replicas = replicas
        self._count = len(replicas.busy_ms)
        self._uniforms = uniforms(rng)

    def least_loaded(self, start: int, now: float) -> int:
        """Index of the least loaded replica, searched from a random one on so that ties are fair."""
        load = self._replicas.load
        best, least = start, load(start, now)
        for replica in (*range(start + 1, self._count), *range(start)):
            if not least:
                break
            other = load(replica, now)
            if other < least:
                best, least = replica, other
        return best

    def least_score(self, start: int, now: float) -> int:
        """Index of the replica with the least score of up to 16 from one on; near ties go to the first."""
        score, count = self._replicas.score, self._count
        best, least = start, inf
        for place in range(start, start + min(count, MAX_CANDIDATES)):
            replica = place if place < count else place - count
            found = score(replica, now)
            if found < least:
                best, least = replica, found * EQUAL_SCORES
        return best

    def for_copy(self, attempts: Sequence[int], now: float) -> int:
        """Best replica for a copy of a call with these attempts; fewer than there are replicas."""
        taken = [self._replicas.replica[attempt] for attempt in attempts]
        left = [replica for replica in range(self._count) if replica not in taken]
        first = int(next(self._uniforms) * len(left))
        if self._rule == "random":
            return left[first]
        score = self._replicas.score
        return min(left[first:] + left[:first], key=lambda replica: score(replica, now))


def candidates(
    rule: Dispatch, pinned: Ints, replicas: int, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Two candidate replicas for each primary call; the same one twice where there is no choice.

    Args:
        pinned: (m,) index of the replica of a background call; -1 for a call of the stage.
        replicas: number of replicas, 1 or more.
    """
    one = rng.integers(replicas, size=len(pinned))
    if rule == "random" or replicas == 1:
        other = one
    elif rule == "envoy":
        other = rng.integers(replicas, size=len(pinned))
    else:
        other = (one + 1 + rng.integers(replicas - 1, size=len(pinned))) % replicas
    fixed = pinned >= 0
    one, other = np.where(fixed, pinned, one), np.where(fixed, pinned, other)
    return one.tolist(), other.tolist()


def uniforms(rng: np.random.Generator) -> Iterator[float]:
    """Uniform draws from 0 to below 1, one after the other."""
    while True:
        yield from rng.random(DRAWS_PER_BATCH).tolist()
