"""Probability that a slot is free within some time, from the slots that are busy now."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from papers.worlds.waiting.lines.distributions import BusyTime

Chance = Callable[[float], float]  # of a slot within so many seconds
HALVINGS: Final = 40
AGES: Final = 12  # ages that stand for those of all slots that were given from one pool
MOMENTS: Final = 32  # at which a curve is computed; straight lines between
SHORTEST: Final = 1 / 256  # first moment, as a share of the longest mean busy time
LONGEST: Final = 4.0  # last moment, in the same unit
MIN_LEFT: Final = 1e-10  # probability that a job is as old as it is, below which it may end at any moment
CERTAIN: Final = 1 - 1e-15  # probability above which the logarithm of the rest is not taken


def chance_of_releases(chances: Sequence[float], needed: int) -> float:
    """Probability that at least some number of independent releases happens.

    Args:
        chances: probability of each release.
        needed: number of releases, 0 or more.
    """
    if needed <= 0:
        return 1.0
    if needed == 1:
        return 1.0 - math.prod(1.0 - chance for chance in chances)
    if needed > len(chances):
        return 0.0
    fewer = [1.0] + [0.0] * (needed - 1)  # probability of each count below the one that is needed
    for chance in chances:
        for count in range(needed - 1, 0, -1):
            fewer[count] += chance * (fewer[count - 1] - fewer[count])
        fewer[0] *= 1.0 - chance
    return max(0.0, 1.0 - math.fsum(fewer))


def time_for(chance: Chance, probability: float, longest_s: float) -> float:
    """Time by which a slot is free with some probability, in seconds; infinite if not by the longest.

    Args:
        chance: function from seconds to a probability, rising.
        probability: probability that is wanted.
        longest_s: time up to which is looked, in seconds.
    """
    if chance(longest_s) < probability:
        return math.inf
    low, high = 0.0, longest_s
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < probability else (low, middle)
    return high


@dataclass(frozen=True)
class ReleaseCurve:
    """Releases into a pool that are expected from now on.

    Attributes:
        moments_s: times from now on, rising, in seconds.
        hazards: by moment, minus the logarithm of the probability that nothing was released until then.
    """

    moments_s: tuple[float, ...]
    hazards: tuple[float, ...]

    def chance(self, within_s: float, needed: int) -> float:
        """Probability of at least so many releases: exact for one; for more, the count is taken as Poisson's.

        Args:
            within_s: time from now on, in seconds.
            needed: number of releases, 1 or more.
        """
        at = bisect.bisect_right(self.moments_s, within_s)
        if at == len(self.moments_s):
            hazard = self.hazards[-1]
        elif at == 0:
            hazard = self.hazards[0] * within_s / self.moments_s[0]
        else:
            part = (within_s - self.moments_s[at - 1]) / (self.moments_s[at] - self.moments_s[at - 1])
            hazard = self.hazards[at - 1] + part * (self.hazards[at] - self.hazards[at - 1])
        term = total = math.exp(-hazard)
        for count in range(1, needed):
            term *= hazard / count
            total += term
        return max(0.0, 1.0 - total)


class BusySlots:
    """Busy slots that were given from one pool, for the curves of all pools that they may become free in.

    Args:
        busy: distribution of their busy times.
        ages_s: ages of the slots, in seconds.
    """

    def __init__(self, busy: BusyTime, ages_s: Sequence[float]) -> None:
        self.mean_s = busy.mean_s
        self._busy, self._ages = busy, _grouped(ages_s)
        self._ends: dict[float, list[tuple[int, list[float]]]] = {}

    def ends(self, longest_s: float) -> list[tuple[int, list[float]]]:
        """By age: how many slots it stands for, and the chance of an end by each moment, up to certainty.

        Args:
            longest_s: mean busy time that `moments` are shares of, in seconds.
        """
        if longest_s not in self._ends:
            self._ends[longest_s] = [
                (count, self._ends_of(age_s, moments(longest_s))) for age_s, count in self._ages
            ]
        return self._ends[longest_s]

    def _ends_of(self, age_s: float, at_s: Sequence[float]) -> list[float]:
        begun = self._busy.below(age_s)
        left = max(1.0 - begun, MIN_LEFT)
        found = list[float]()
        for moment in at_s:
            found.append(min(1.0, max(0.0, (self._busy.below(age_s + moment) - begun) / left)))
            if found[-1] >= 1.0:
                break
        return found


def moments(longest_s: float) -> tuple[float, ...]:
    """Moments at which a curve is computed, rising, in seconds."""
    ratio = (LONGEST / SHORTEST) ** (1 / (MOMENTS - 1))
    return tuple(longest_s * SHORTEST * ratio**at for at in range(MOMENTS))


def release_curve(busy: Sequence[tuple[BusySlots, float]]) -> ReleaseCurve:
    """Releases into a pool, by the ages of the busy slots.

    Args:
        busy: for each pool that slots were given from: these slots, and the share of them that becomes free
            in the pool.
    """
    longest_s = max((slots.mean_s for slots, _ in busy), default=1.0)
    hazards = [0.0] * MOMENTS
    for slots, share in busy:
        for count, ends in slots.ends(longest_s):
            rest = 0.0
            for at, end in enumerate(ends):
                rest = count * math.log1p(-min(share * end, CERTAIN))
                hazards[at] -= rest
            for later in range(len(ends), MOMENTS):  # the jobs have ended by then
                hazards[later] -= rest
    return ReleaseCurve(moments(longest_s), tuple(hazards))


def _grouped(ages_s: Sequence[float]) -> list[tuple[float, int]]:
    """A few ages that stand for all, and how many each stands for; the ages themselves while they are few."""
    ordered = sorted(ages_s)
    if len(ordered) <= AGES:
        return [(age_s, 1) for age_s in ordered]
    ends = [len(ordered) * at // AGES for at in range(AGES + 1)]
    return [
        (math.fsum(ordered[first:end]) / (end - first), end - first)
        for first, end in itertools.pairwise(ends)
    ]
