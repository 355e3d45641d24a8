"""Scenarios of ARQ: Table 6.1's cluster at low load, with phases and oversubscribed, and 1,000 servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.lab.fleet import LOCAL, SCENARIOS, Platform, World, applications, cloud

JOBS: Final = 178
KNOWN: Final = 50  # past applications, measured everywhere
MEDIAN_S: Final = 330.0
SERVERS: Final = 1000


@dataclass(frozen=True)
class LinedScenario:
    """A scenario that can be drawn.

    Attributes:
        test_s: time between two tests of whether a job changes its line, in seconds.
        draw: function from a seed to the world.
    """

    platforms: tuple[Platform, ...]
    test_s: float
    draw: Callable[[int], World]


def _local(name: str, gap_s: float, phases: int = 1, *, uneven: bool = False) -> Callable[[int], World]:
    def draw(seed: int) -> World:
        if uneven:
            gaps_s = np.random.default_rng([seed, 6]).normal(gap_s, 1.0, JOBS)
            arrivals_s = np.cumsum(np.maximum(gaps_s, 0.0))
        else:
            arrivals_s = np.arange(JOBS, dtype=float) * gap_s
        return applications(name, seed, LOCAL, arrivals_s, known=KNOWN, median_s=MEDIAN_S, phases=phases)

    return draw


LINED_SCENARIOS: Final[Mapping[str, LinedScenario]] = MappingProxyType(
    {
        "low": LinedScenario(LOCAL, 1.0, SCENARIOS["local-low"].draw),
        "phases": LinedScenario(LOCAL, 1.0, _local("phases", 10.0, 3, uneven=True)),
        "phases, even arrivals": LinedScenario(LOCAL, 1.0, _local("phases-even", 10.0, 3)),
        "oversubscribed": LinedScenario(LOCAL, 1.0, _local("oversubscribed", 1.0)),
        "large": LinedScenario(cloud(SERVERS), 5.0, SCENARIOS["cloud-full"].draw),
    }
)
