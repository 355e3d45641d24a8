"""The law of the disturbance: who is paused, how often, for how long. Fixed by principle, not by its result.

A stage's replicas stop now and then, one at a time, any of them (Dean and Barroso, "The Tail at Scale", 2013:
garbage collection, background jobs, power limits, neighbours). A replica that always misbehaves is avoided by
replica choice, with a plan or without; what nobody can foresee is what reissues are for. Bursts are
log-normal, since durations of such hiccups are: median 100 ms, sigma 0.5, none beyond 500 ms. Real fleets are
uneven, so each stage's share of the time is drawn log-uniformly between 1% and 10%, whatever the stage costs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

MEDIAN_S = 0.100
SIGMA = 0.5
LONGEST_S = 0.500
LEAST_SHARE, MOST_SHARE = 0.01, 0.10

WORDS = (
    f"A replica of each stage, any of them, is paused in bursts (its process is stopped and continued). "
    f"Bursts are log-normal: median {1000 * MEDIAN_S:.0f} ms, sigma {SIGMA:g}, cut at "
    f"{1000 * LONGEST_S:.0f} ms; the gaps between them are exponential. Fleets are uneven, so each stage's "
    f"share of the time is drawn log-uniformly between {LEAST_SHARE:.0%} and {MOST_SHARE:.0%} of it, by the "
    f"seed alone: neither cost nor result has a say."
)


@dataclass(frozen=True)
class Burst:
    """One pause; seconds from the start of the disturbance."""

    start_s: float
    length_s: float


def mean_burst_s() -> float:
    """Mean length of a burst: of min(X, longest) with X log-normal, in closed form."""
    z = (math.log(LONGEST_S / MEDIAN_S)) / SIGMA
    whole = MEDIAN_S * math.exp(SIGMA**2 / 2)
    return whole * _normal(z - SIGMA) + LONGEST_S * (1 - _normal(z))


def _normal(z: float) -> float:
    """Distribution function of the standard normal law."""
    return (1 + math.erf(z / math.sqrt(2))) / 2


def share_of_time(stage: str, seed: int) -> float:
    """Share of the time that a replica of the stage is paused; independent of every other stage."""
    draw = random.Random(f"share/{seed}/{stage}").random()  # noqa: S311 - a simulation's draw
    return LEAST_SHARE * math.exp(draw * math.log(MOST_SHARE / LEAST_SHARE))


def victims(stage: str, replicas: int, seed: int) -> Iterator[int]:
    """The endless run of which of a stage's replicas each burst hits: any, whichever was hit before."""
    rng = random.Random(f"replica/{seed}/{stage}")  # noqa: S311 - likewise
    while True:
        yield rng.randrange(replicas)


def bursts(stage: str, seed: int, share: float) -> Iterator[Burst]:
    """The endless run of a stage's pauses: a gap first, then burst and gap in turn.

    Args:
        stage: whose replicas.
        seed: of the draws.
        share: of the time to be paused, in the long run; above 0 and below 1.
    """
    rng = random.Random(f"bursts/{seed}/{stage}")  # noqa: S311 - likewise
    mean_gap = mean_burst_s() * (1 - share) / share
    now = 0.0
    while True:
        now += rng.expovariate(1 / mean_gap)
        length = min(LONGEST_S, rng.lognormvariate(math.log(MEDIAN_S), SIGMA))
        yield Burst(now, length)
        now += length
