"""Random schedule of pauses: which replica is paused, how often, and for how long.

The replicas of a stage stop now and then, one at a time, each equally likely (Dean and Barroso, "The Tail at
Scale", 2013: garbage collection, background jobs, power limits, neighbours). A replica that is always slow is
avoided by replica choice, with a plan or without; reissues are for pauses that cannot be foreseen. Durations
of such pauses are log-normal: median 100 ms, sigma 0.5, cut at 500 ms. Faults are few at a time and move, so
the seed draws two stages, and for each the share of requests that meet a pause there, log-uniformly between
2% and 8%, whatever the stages cost. The parameters were chosen before any result was known.

A request that is sent to a paused replica waits, and the requests after it go to the other replicas. So a
pause costs about one request if any request meets it at all, and a lower rate needs fewer pauses, but not in
proportion: many of them would be met by nobody.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist, fmean

MEDIAN_BURST_S = 0.100
SIGMA = 0.5
MAX_BURST_S = 0.500
DISTURBED_STAGES = 2
MIN_MET, MAX_MET = 0.02, 0.08  # share of the requests that meet a pause of one of these stages
POINTS = 200  # of the distribution of lengths, over which chances are averaged
MAX_SHARE_OF_TIME = 0.5  # so that each of two replicas is there for most of the time, at any rate

DESCRIPTION = (
    f"The seed draws {DISTURBED_STAGES} stages. Replicas of these, any of them, one at a time, are paused in "
    f"bursts (the process is stopped and continued). "
    f"Bursts are log-normal: median {1000 * MEDIAN_BURST_S:.0f} ms, sigma {SIGMA:g}, cut at "
    f"{1000 * MAX_BURST_S:.0f} ms; the gaps between them are exponential. The share of requests that meet a "
    f"pause of a stage is drawn log-uniformly between {MIN_MET:.0%} and {MAX_MET:.0%}, by the seed alone: "
    f"neither cost nor result has a say. The share of the time follows from it and the rate."
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
    normal = NormalDist()
    return whole * normal.cdf(z - SIGMA) + MAX_BURST_S * (1 - normal.cdf(z))


def disturbed_stages(stages: Iterable[str], seed: int) -> list[str]:
    """Stages whose replicas are paused: each pair is equally likely, whatever the order of the stages."""
    known = sorted(stages)
    return random.Random(f"stages/{seed}").sample(known, min(DISTURBED_STAGES, len(known)))  # noqa: S311


def share_of_requests(stage: str, seed: int) -> float:
    """Share of the requests that meet a pause of the stage; independent of every other stage."""
    draw = random.Random(f"share/{seed}/{stage}").random()  # noqa: S311 - a simulation's draw
    return MIN_MET * math.exp(draw * math.log(MAX_MET / MIN_MET))


def share_of_time(met: float, *, rate: float, reach: float) -> float:
    """Share of the time for which a replica of a stage is paused so that a share of the requests meets it.

    A pause is met if a request reaches the paused replica while it lasts, and is then met about once.
    With Poisson arrivals the chance of that is the mean of 1 - exp(-rate * reach * length) over the lengths.

    Args:
        met: share of the requests that meet a pause, from 0 to 1.
        rate: requests a second.
        reach: chance that a request has a call at one given replica of the stage, above 0 and at most 1.
    """
    chance = fmean(-math.expm1(-rate * reach * length) for length in _typical_lengths())
    return min(MAX_SHARE_OF_TIME, met * rate / chance * mean_burst_s())


@cache
def _typical_lengths() -> tuple[float, ...]:
    """Lengths of bursts in seconds at evenly spaced probabilities, (`POINTS`,)."""
    normal = NormalDist()
    ranks = (normal.inv_cdf((number + 0.5) / POINTS) for number in range(POINTS))
    return tuple(min(MAX_BURST_S, MEDIAN_BURST_S * math.exp(SIGMA * rank)) for rank in ranks)


def reach_of(replicas: int, calls: int) -> float:
    """Chance that a request has a call at one given replica of a stage.

    Args:
        replicas: number of the stage's replicas, 1 or more.
        calls: number of calls of a request at the stage, 1 or more: a fan-out has one for each shard.
    """
    return 1 - (1 - 1 / replicas) ** calls


def victims(stage: str, replicas: int, seed: int) -> Iterator[int]:
    """Endless series of the replica hit by each burst of a stage: independent and uniform."""
    rng = random.Random(f"replica/{seed}/{stage}")  # noqa: S311 - likewise
    while True:
        yield rng.randrange(replicas)


def bursts(stage: str, seed: int, share: float) -> Iterator[Burst]:
    """Endless series of a stage's pauses: a gap first, then bursts and gaps in turn.

    Args:
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
