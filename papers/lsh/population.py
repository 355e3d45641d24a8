"""Synthetic applications with scores on ten configurations of servers, as specified.

What the specification leaves open (scores by configuration, speeds, cores) is a constant here, chosen before
anything was run and not adjusted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints

SHARED: Final = (
    *("memory capacity", "memory bandwidth", "storage capacity", "storage bandwidth", "network bandwidth"),
    *("cache capacity", "cache bandwidth", "TLB capacity", "integer unit", "floating-point unit"),
)
CONFIGURATIONS: Final = 10  # worst first
CORES: Final = (1, 2, 3, 4, 6, 6, 8, 8, 10, 12)  # of a server, by configuration
SINGLE, MIXED = 98, 100  # applications of one program, and of four
ARCHETYPES: Final = 10
SPREAD: Final = 0.03  # standard deviation of an application's intensity around its archetype
NOISE: Final = 0.015  # standard deviation of a score around the intensity's
NOISE_BY_CONFIGURATION: Final = 0.01
WORST, BEST = 0.55, 1.0  # share of the best server's resources, on the worst and on the best configuration
UNEVEN: Final = 0.05  # standard deviation of a resource's share of the configuration
# Scale of needs and causes: as specified, for accuracy alone, no two applications fit on one server.
NEED_SCALE, CAUSE_SCALE = 0.6, 0.3
SLOWED: Final = 0.6  # share of its speed that a fully sensitive application loses where there is nothing


@dataclass(frozen=True, eq=False)
class Applications:
    """Applications and what is true of them.

    Attributes:
        scores: (a, c, r, 2) need and cause of each resource by configuration, shares from 0 to 1. A need is
            1 less the pressure that is tolerated.
        speed: (a, c) performance alone, as a share of that on the best configuration.
        cores: (a,) number of cores that an application takes.
    """

    scores: Floats
    speed: Floats
    cores: Ints


def applications(seed: int) -> Applications:
    """Draw the 198 applications of one population: programs of ten kinds, and mixes of four programs."""
    rng = np.random.default_rng([seed, 2])
    high = rng.random((ARCHETYPES, len(SHARED))) < 0.5  # noqa: PLR2004 - either end is as likely
    kinds = np.where(high, rng.beta(5, 2, high.shape), rng.beta(2, 5, high.shape))
    own = kinds[rng.integers(ARCHETYPES, size=SINGLE)] + rng.normal(0, SPREAD, (SINGLE, len(SHARED)))
    own = np.clip(own, 0.0, 1.0)
    need = NEED_SCALE * np.clip(0.15 + 0.8 * own + rng.normal(0, NOISE, own.shape), 0.0, 1.0)
    cause = CAUSE_SCALE * np.clip(0.05 + 0.8 * own**1.3 + rng.normal(0, NOISE, own.shape), 0.0, 1.0)
    mixes = np.array([rng.choice(SINGLE, 4, replace=False) for _ in range(MIXED)])
    need = np.vstack((need, need[mixes].max(axis=1)))
    cause = np.vstack((cause, 1.0 - np.prod(1.0 - cause[mixes], axis=1)))
    offered = np.linspace(WORST, BEST, CONFIGURATIONS)[:, None]
    offered = np.clip(offered * rng.normal(1.0, UNEVEN, (CONFIGURATIONS, len(SHARED))), 0.1, 1.0)
    by_configuration = np.stack(
        (1.0 - (1.0 - need[:, None]) * offered, cause[:, None] / offered), axis=3
    ) + rng.normal(0, NOISE_BY_CONFIGURATION, (len(need), CONFIGURATIONS, len(SHARED), 2))
    speed = 1.0 - SLOWED * need.mean(axis=1)[:, None] * (1.0 - offered.mean(axis=1))
    cores = np.array([1] * SINGLE + [4] * MIXED, dtype=np.int64)
    return Applications(np.clip(by_configuration, 0.0, 1.0), speed / speed.max(axis=1, keepdims=True), cores)
