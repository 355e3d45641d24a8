"""Random schedule of pauses: which replica is paused, how often, and for how long.

The replicas of a stage stop now and then, one at a time, each equally likely (Dean and Barroso, "The Tail at
Scale", 2013: garbage collection, background jobs, power limits, neighbours). A replica that is always slow is
avoided by replica choice, with a plan or without; reissues are for pauses that cannot be foreseen. Durations
of such pauses are log-normal: median 100 ms, sigma 0.5, cut at 500 ms. Real fleets are uneven, so each
stage's share of the time is drawn log-uniformly between 1% and 10%, independent of the stage's cost. The
parameters were chosen before any result was known.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

MEDIAN_BURST_S = 0.100
SIGMA = 0.5
MAX_BURST_S = 0.500
MIN_SHARE, MAX_SHARE = 0.01, 0.10

DESCRIPTION = (
    f"A replica of each stage, any of them, is paused in bursts (its process is stopped and continued). "
    f"Bursts are log-normal: median {1000 * MEDIAN_BURST_S:.0f} ms, sigma {SIGMA:g}, cut at "
    f"{1000 * MAX_BURST_S:.0f} ms; the gaps between them are exponential. Fleets are uneven, so each stage's "
    f"share of the time is drawn log-uniformly between {MIN_SHARE:.0%} and {MAX_SHARE:.0%} of it, by the "
    f"seed alone: neither cost nor result has a say."
)


@dataclass(frozen=True)
class Burst:
    """One pause; seconds from the start of the disturbance."""

    start_s: float
    length_s: float


def mean_burst_s() -> float:
    """Mean length of a burst in seconds: closed form of E[min(X, MAX_BURST_S)] with X log-normal."""
    z = (math.log(MAX_BURST_S / MEDIAN_BURST_S)) / SIGMA
    whole = MEDIAN_BURST_S * math.exp(SIGMA**2 / 2)
    return whole * _normal(z - SIGMA) + MAX_BURST_S * (1 - _normal(z))


def _normal(z: float) -> float:
    """Distribution function of the standard normal distribution."""
    return (1 + math.erf(z / math.sqrt(2))) / 2


def share_of_time(stage: str, seed: int) -> float:
    """Share of the time for which a replica of the stage is paused; independent of every other stage."""
    draw = random.Random(f"share/{seed}/{stage}").random()  # noqa: S311 - a simulation's draw
    return MIN_SHARE * math.exp(draw * math.log(MAX_SHARE / MIN_SHARE))


def victims(stage: str, replicas: int, seed: int) -> Iterator[int]:
    """Endless series of the replica hit by each burst of a stage: independent and uniform."""
    rng = random.Random(f"replica/{seed}/{stage}")  # noqa: S311 - likewise
    while True:
        yield rng.randrange(replicas)


def bursts(stage: str, seed: int, share: float) -> Iterator[Burst]:
    """Endless series of a stage's pauses: a gap first, then bursts and gaps in turn.

    Args:
        stage: name of the stage.
        seed: seed of the random numbers.
        share: long-run share of the time to be paused; above 0 and below 1.
    """
    rng = random.Random(f"bursts/{seed}/{stage}")  # noqa: S311 - likewise
    mean_gap = mean_burst_s() * (1 - share) / share
    now = 0.0
    while True:
        now += rng.expovariate(1 / mean_gap)
        length = min(MAX_BURST_S, rng.lognormvariate(math.log(MEDIAN_BURST_S), SIGMA))
        yield Burst(now, length)
        now += length
