"""Quality codes: how much a job demands of a resource unit, and what a unit offers, as exact integers.

A job that causes the pressures `c` on `N` resources (integers from 0 to 99) has the code
`sum of c_(n) * 100^(N - n)` over its pressures in falling order (Tarcil, equation 7.1; HCloud section 2.3):
its digits to the base 100. A unit's code is that of the pressure on it, in the order of the job, subtracted
from the largest code (7.4). Ten resources take 67 bits, so codes are Python integers: in floats the last two
digits would vanish, and in 64 bits the first would overflow. Shares from 0 to 1 are for display only.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

BASE: Final = 100  # of the digits of a code
MAX_SCORE: Final = BASE - 1  # of one pressure


class Shortfall(StrEnum):
    """Order of the units that offer less than a job demands (Tarcil, equation 7.5, second branch).

    Attributes:
        MONOTONE: more offered is better.
        PRINTED: as the source prints the equation, by which less offered is better.
    """

    MONOTONE = "monotone"
    PRINTED = "printed"


def pressure_scores(shares: Sequence[float]) -> tuple[int, ...]:
    """Pressures as integers from 0 to 99.

    Args:
        shares: pressures as shares from 0 to 1; what lies outside is taken as the nearer end.
    """
    return tuple(round(MAX_SCORE * min(max(share, 0.0), 1.0)) for share in shares)


def falling_order(caused: Sequence[int]) -> tuple[int, ...]:
    """Indices of the resources by the pressure that a job causes, largest first; ties by index."""
    return tuple(sorted(range(len(caused)), key=lambda resource: -caused[resource]))


def encode(scores: Sequence[int], order: Sequence[int] | None = None) -> int:
    """Code of pressures.

    Args:
        scores: pressure on each resource, an integer from 0 to 99.
        order: indices of the resources in the order of their digits; None for the falling order of the
            scores.
    """
    code = 0
    for score in sorted(scores, reverse=True) if order is None else [scores[resource] for resource in order]:
        code = code * BASE + score
    return code


def largest_code(resources: int) -> int:
    """Largest code of this number of resources: every digit is 99."""
    return int(BASE**resources) - 1


def offered_quality(pressure: Sequence[int], order: Sequence[int] | None = None) -> int:
    """What a unit offers: the largest code less that of the pressure on it; `U` of the source.

    Args:
        pressure: pressure of the neighbours on each resource of the unit, an integer from 0 to 99.
        order: falling order of the job that is compared with, so that equal digits mean the same resource;
            None for the unit's own falling order, which is the source's wording taken literally.
    """
    return largest_code(len(pressure)) - encode(pressure, order)


def match_quality(
    offered: int, required: int, resources: int, shortfall: Shortfall = Shortfall.MONOTONE
) -> int:
    """How well a unit suits a job, from 0 to the largest code, which is a perfect fit; `Q` of the source.

    There are two cases:
    1. The unit offers enough: the less it offers beyond the demand, the better. The result is at least
       `required`.
    2. The unit offers too little: the result is at most `required`, in the order that `shortfall` names.

    Args:
        offered: what the unit offers, a code.
        required: what the job demands, the code of the pressures that it causes; `T` of the source.
        resources: number of resources of both codes.
        shortfall: order of the units that offer too little.
    """
    if offered >= required:
        return largest_code(resources) - (offered - required)
    return offered if shortfall is Shortfall.MONOTONE else required - offered


def quality_share(code: int, resources: int) -> float:
    """A code as a share of the largest one, from 0 to 1; for display, where the last digits do not count."""
    return code / largest_code(resources)
