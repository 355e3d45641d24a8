"""Kinds of tasks: the pressure that they cause, what they tolerate, and their speed by platform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from papers.worlds.quality import MAX_SCORE, encode, falling_order, quality_share

RESOURCES: Final = 10
DOMINANT: Final = (1, 3)  # least and most resources that a kind presses hard on
HARD: Final = (25, 90)  # pressure on these, of 99
LIGHT: Final = (0, 12)  # pressure on the others
# Share of performance lost at the tolerated pressure, by the definition of a tolerance. The loss rises with
# the square up to it, and by the excess pressure beyond. Losses of several resources multiply, which neither
# the quality code nor the prediction of a scheduler supposes.
LOSS_AT_LIMIT: Final = 0.05
MIN_LIMIT: Final = 0.05  # least tolerated pressure, as a share
PLATFORM: Final = (0.45, 1.0)  # speed of a platform for a kind, as a factor of the best


@dataclass(frozen=True)
class TaskKind:
    """Kind of tasks that recur, with a profile.

    Attributes:
        caused: pressure on each resource, from 0 to 99.
        order: resources by falling pressure.
        tolerated: 99 less the pressure, in that order; a unit is adequate if the pressure on it in the same
            order is not above (digit by digit, the first difference decides).
        limits: tolerated pressure by resource, as a share of full pressure.
        platform: speed on each platform as a factor of the best.
    """

    caused: tuple[int, ...]
    order: tuple[int, ...]
    tolerated: tuple[int, ...]
    limits: tuple[float, ...]
    platform: tuple[float, ...]

    @property
    def demand(self) -> float:
        """Code of the pressure as a share of the largest one: `T` of the source."""
        return quality_share(encode(self.caused), len(self.caused))


def kind_of(caused: tuple[int, ...], platform: tuple[float, ...] = (1.0,)) -> TaskKind:
    """Kind with this pressure."""
    order = falling_order(caused)
    return TaskKind(
        caused,
        order,
        tuple(MAX_SCORE - caused[resource] for resource in order),
        tuple(max(1.0 - score / MAX_SCORE, MIN_LIMIT) for score in caused),
        platform,
    )


def drawn_kinds(count: int, platforms: int, rng: np.random.Generator) -> list[TaskKind]:
    """Kinds with one to three dominant resources.

    Args:
        platforms: number of platforms; one is the best of each kind.
    """
    kinds = []
    for _ in range(count):
        caused = rng.integers(LIGHT[0], LIGHT[1] + 1, RESOURCES)
        hard = rng.choice(RESOURCES, int(rng.integers(DOMINANT[0], DOMINANT[1] + 1)), replace=False)
        caused[hard] = rng.integers(HARD[0], HARD[1] + 1, len(hard))
        speed = rng.uniform(*PLATFORM, platforms)
        speed /= speed.max()
        kinds.append(kind_of(tuple(caused.tolist()), tuple(speed.tolist())))
    return kinds
