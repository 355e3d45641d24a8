"""Notes on a load model and its simulation: facts about its quality. The command line words them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class LoadHasNoEffect:
    """Load has no effect on stages whose busy time is not known."""

    stages: tuple[str, ...]


@dataclass(frozen=True)
class WaitsTooLong:
    """The model has more waiting than the measured latencies leave room for.

    Attributes:
        excess: largest excess over a percentile, as a share of it, by stage.
    """

    excess: Mapping[str, float]


@dataclass(frozen=True)
class LatenciesNotExplained:
    """Work, wait and rest do not quite add up to the measured latencies.

    Attributes:
        errors: largest error of a percentile, as a share of it, by stage.
    """

    errors: Mapping[str, float]


@dataclass(frozen=True)
class LeversNotSimulated:
    """Partial answers and catch-up of the plan are not simulated.

    Attributes:
        stages: names of the stages that have them.
    """

    stages: tuple[str, ...]


LoadNote: TypeAlias = LoadHasNoEffect | WaitsTooLong | LatenciesNotExplained | LeversNotSimulated
