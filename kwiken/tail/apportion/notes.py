"""Notes on uncertain gains: facts that a reader of a plan should know. The command line words them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class GainsMayBeChance:
    """Chance may explain the whole gain of copies at some stages.

    Attributes:
        counted: share of their gains that counts in the apportionment, 0 to 1.
    """

    stages: tuple[str, ...]
    counted: float


@dataclass(frozen=True)
class GainsUncertain:
    """Few slow requests were seen, so the gains of some stages count in part.

    Attributes:
        certainty: certain share of the gain, 0 to 1, by stage.
    """

    certainty: Mapping[str, float]


ApportionNote: TypeAlias = GainsMayBeChance | GainsUncertain
