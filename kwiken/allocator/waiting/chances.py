"""Probability that a slot is free within some time, from the slots that are busy now."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from kwiken.allocator.waiting.distributions import BusyTime

EXACT: Final = 64  # busy slots up to which counts of releases are exact; above, they are Poisson's
Chance = Callable[[float], float]  # of a slot within so many seconds
HALVINGS: Final = 40


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
    if len(chances) > EXACT:
        mean = math.fsum(chances)
        term = total = math.exp(-mean)
        for count in range(1, needed):
            term *= mean / count
            total += term
        return max(0.0, 1.0 - total)
    fewer = [1.0] + [0.0] * (needed - 1)  # probability of each count below the one that is needed
    for chance in chances:
        for count in range(needed - 1, 0, -1):
            fewer[count] += chance * (fewer[count - 1] - fewer[count])
        fewer[0] *= 1.0 - chance
    return max(0.0, 1.0 - math.fsum(fewer))


def free_chance(busy: BusyTime, ages_s: Sequence[float], within_s: float, ahead: int = 0) -> float:
    """Probability that a slot is free for a job, by the ages of those that are busy.

    Args:
        busy: distribution of busy times.
        ages_s: time since the start of the job of each busy slot, in seconds.
        within_s: time from now on, in seconds.
        ahead: number of jobs that are served before.
    """
    return chance_of_releases([busy.within(age, within_s) for age in ages_s], ahead + 1)


def stationary_chance(busy: BusyTime, slots: int, within_s: float, ahead: int = 0) -> float:
    """Probability that a slot is free for a job, where the ages of the busy slots are not known.

    Args:
        busy: distribution of busy times.
        slots: number of busy slots.
        within_s: time from now on, in seconds.
        ahead: number of jobs that are served before.
    """
    return chance_of_releases([busy.rest_within(within_s)] * slots, ahead + 1)


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
