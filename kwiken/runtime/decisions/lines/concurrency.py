"""Learner of concurrency: how many requests at once keep the replicas of a service busy, and few more.

Requests are grouped by the number that ran when they started: their level. The stretch of a level is the time
that its requests took over the time that requests of their kinds take where they meet no others. A level over
its stretch is the work done at once (Little's law): it rises with the level until the replicas are busy, and
then stays. The limit is the most work done at any level, and a little more: as the product of bandwidth and
delay bounds what is under way on a network path (BBR, ACM Queue 2016).

The little more keeps replicas busy while the next request is on its way, and shows whether more work can be
done: if so, the limit follows. If the replicas become fewer, the work at all levels that are in use falls,
and the limit with it. Pure: times in, a limit out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from math import inf
from typing import Final

GAIN: Final = 0.02  # weight of one request in the mean times of its level
MIN_OF_KIND: Final = 10  # requests of a kind at a level before their mean counts
MIN_AT_LEVEL: Final = 20  # requests at a level before its stretch counts
MIN_REQUESTS: Final = 100  # before there is a limit
MAX_AGE: Final = 1_000  # requests since the last one at a level, after which the level's work is out of date
MARGIN: Final = 1.05  # of the limit over the work done at once
EXTRA: Final = 1.0  # requests over that: the next one is on its way when a replica is done
GROWTH: Final = 1.25  # of the levels that are told apart
MAX_LEVEL: Final = 4096


def _levels() -> list[int]:
    """Highest number of each level: all numbers while they are few, then steps of a quarter."""
    levels = [1]
    while levels[-1] < MAX_LEVEL:
        levels.append(max(levels[-1] + 1, int(levels[-1] * GROWTH)))
    return levels


LEVELS: Final[Sequence[int]] = tuple(_levels())
_LEVEL_OF: Final[Sequence[int]] = tuple(
    level
    for level, (low, high) in enumerate(itertools.pairwise((0, *LEVELS)))
    for _ in range(low, min(high, MAX_LEVEL))
)


def level_of(number: int) -> int:
    """Index of the level of a number of requests that run, 1 or more."""
    return _LEVEL_OF[min(number, MAX_LEVEL) - 1]


class _Mean:
    """Mean of recent values: of all while they are few, then weighted towards the last ones."""

    __slots__ = ("count", "value")

    def __init__(self) -> None:
        self.count = 0
        self.value = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.value += max(GAIN, 1.0 / self.count) * (value - self.value)


class _Level:
    """Times of the requests that started at one level: together, and by kind."""

    __slots__ = ("at", "kinds", "number", "own", "took")

    def __init__(self) -> None:
        self.at = 0  # number of requests before the last one of this level
        self.number = _Mean()
        self.took = _Mean()
        self.own = _Mean()
        self.kinds: dict[str, _Mean] = {}


class ConcurrencyLearner:
    """Learns the service time of each kind, and from them the number of requests to run at once.

    Attributes:
        service_s: time that a request of each kind takes where it meets no others, seconds, if known.
        limit: number of requests that may run at once; infinite until enough requests have ended.
    """

    def __init__(self) -> None:
        self.limit: float = inf
        self._levels: dict[int, _Level] = {}
        self.service_s: dict[str, float] = {}
        self._requests = 0

    def ended(self, kind: str, number: int, took_s: float) -> None:
        """Record a request that was served.

        Args:
            number: number of requests that ran when the request started, with the request itself.
            took_s: time from its start to its end, seconds; the wait in a line is not part of the time.
        """
        level = self._levels.setdefault(level_of(number), _Level())
        mean = level.kinds.setdefault(kind, _Mean())
        mean.add(took_s)
        means = [each.kinds[kind] for each in self._levels.values() if kind in each.kinds]
        known = [each.value for each in means if each.count >= MIN_OF_KIND]
        if known:
            self.service_s[kind] = own_s = min(known)
            level.number.add(number)
            level.took.add(took_s)
            level.own.add(own_s)
        level.at = self._requests = self._requests + 1
        if self._requests >= MIN_REQUESTS:
            self._learn()

    def _learn(self) -> None:
        """Set the limit to the most work done at once at any level, and a little more."""
        work = [
            level.number.value * level.own.value / level.took.value
            for level in self._levels.values()
            if level.number.count >= MIN_AT_LEVEL
            and level.took.value > 0
            and self._requests - level.at < MAX_AGE
        ]
        if work:
            self.limit = math.ceil(MARGIN * max(work) + EXTRA)
