"""Moments of the slowest call when late calls race copies, for independent and for correlated copies.

A slow request is often slow on every replica, so the latencies of a call and its copy are correlated. The
model is a Gaussian copula: both have the stage's distribution, and their normal scores have correlation rho.
With rho = 0 the closed form of `kwiken.tail.curves.fan_out` applies. Otherwise the conditional distribution
of a copy given its call is sampled at a few points of equal probability. Both give moments over all copies
that might be drawn; `kwiken.tail.simulation.block_race` draws one. tests/tail/simulation/test_races.py holds
them equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from kwiken.base.arrays import Floats
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.tail.curves.fan_out import RankedCalls, RankedCopies

MAX_REQUESTS = 1 << 14  # requests that a curve of correlated copies is computed from
MAX_CELLS = 1 << 20  # calls times points in memory at once
NEGLIGIBLE_LOG_PROBABILITY = 30.0  # minus the logarithm of a probability too small to change a moment
MAX_VALUES = 1 << 14  # distinct values of a copy's distribution; larger ones are thinned
MIN_POINTS, MAX_POINTS = 8, 64  # of a copy's conditional distribution
COPY_SEED = 0x6B77  # third part of the seed of `copy_generator`


class Races(Protocol):
    """Moments of a stage's latency when its late calls race copies."""

    def moments(self, after_ms: Floats, probability: float) -> tuple[Floats, Floats]:
        """(g,) mean, ms, and (g,) mean square, ms², of the slowest call for each of several reissue ages.

        Args:
            after_ms: (g,) ages at which copies are sent, milliseconds; infinite for no copy.
            probability: share of the calls of that age that get a copy, above 0 and at most 1.
        """


@dataclass(frozen=True)
class IndependentRaces:
    """Races with independent copies: the closed form, exact for the samples.

    Attributes:
        calls: calls of the stage, ranked within each request.
        copies: latencies of their copies.
    """

    calls: RankedCalls
    copies: RankedCopies

    @classmethod
    def of(cls, calls: Floats, distribution: EmpiricalDistribution) -> IndependentRaces:
        """Races of (n,) or (n, width) latencies."""
        ranked = RankedCalls.of(calls)
        return cls(ranked, RankedCopies.of(distribution, len(ranked.columns)))

    def moments(self, after_ms: Floats, probability: float) -> tuple[Floats, Floats]:
        """See `Races`."""
        return self.copies.slowest(self.calls, after_ms, probability)


@dataclass(frozen=True)
class CorrelatedRaces:
    """Races with copies whose normal scores have correlation `rho` with those of their calls.

    Attributes:
        calls: (n, k) latencies, milliseconds, the request with the slowest call first; NaN for no call. Wide
            fan-outs keep the slowest k calls of each request.
        distribution: latency distribution of a call, and of a copy.
        rho: correlation of normal scores, 0 or more and below 1.
    """

    calls: Floats
    distribution: EmpiricalDistribution
    rho: float

    @classmethod
    def of(cls, calls: Floats, distribution: EmpiricalDistribution, rho: float) -> CorrelatedRaces:
        """Races of (n,) or (n, width) latencies; of more than `MAX_REQUESTS` requests every k-th is used."""
        matrix = calls.reshape(len(calls), -1)
        matrix = matrix[:: max(1, -(-len(matrix) // MAX_REQUESTS))]
        matrix = _slowest_calls(matrix)
        slowest = np.fmax.reduce(matrix, axis=1, initial=0.0)
        distribution = distribution.thinned(MAX_VALUES)
        return cls(np.ascontiguousarray(matrix[np.argsort(-slowest, kind="stable")]), distribution, rho)

    def moments(self, after_ms: Floats, probability: float) -> tuple[Floats, Floats]:
        """See `Races`.

        A copy's conditional distribution is sampled at points of equal weight, shuffled per shard of a
        fan-out.
        """
        slowest = np.fmax.reduce(self.calls, axis=1, initial=0.0)
        mean, square = np.zeros(len(after_ms)), np.zeros(len(after_ms))
        late = [int(n) for n in np.searchsorted(-slowest, -after_ms, side="left")]
        for g, count in enumerate(late):
            mean[g], square[g] = slowest[count:].sum(), (slowest[count:] ** 2).sum()
        width = self.calls.shape[1]
        points = int(np.clip(MAX_CELLS // max(1, self.calls.size), MIN_POINTS, MAX_POINTS))
        block = max(1, MAX_CELLS // (points * width))
        shuffles = np.random.default_rng(0).spawn(2)  # a fixed seed, so that curves are reproducible
        for at in range(0, max(late, default=0), block):
            part = self.calls[at : at + block]
            copies = self._copies(part, points, shuffles[0])
            needs_coins = probability < 1 and width > 1
            coins = _shuffled_parts((*part.shape, points), shuffles[1]) if needs_coins else None
            for g, count in enumerate(late):
                if count > at:
                    one, two = _raced(
                        part[: count - at], copies, coins, after_ms=float(after_ms[g]), share=probability
                    )
                    mean[g] += one
                    square[g] += two
        return mean / max(1, len(self.calls)), square / max(1, len(self.calls))

    def _copies(self, part: Floats, points: int, rng: np.random.Generator) -> Floats:
        """(k, width, points) latencies of copies, milliseconds.

        There are two cases:
        1. Single calls take the middles of equal parts of the distribution.
        2. Fan-outs take a draw from each part. Their slowest copies decide when they end, and middles would
           never be slower than the middle of the last part.
        """
        shape = (*part.shape, points)
        if part.shape[1] == 1:
            normal = np.broadcast_to(ndtri(_levels(points)), shape)
        else:
            normal = ndtri(_shuffled_parts(shape, rng))
        return correlated_copies(self.distribution, part[:, :, None], normal, self.rho)


def _slowest_calls(calls: Floats) -> Floats:
    """(n, k): the k slowest calls of each request, enough that the others never decide its latency.

    Another call decides only when the copies of all k are faster than that call. Copies of slow calls are no
    faster than others, so with n shards the probability is below `(1 - k / n)^k`, hence below `exp(-k² / n)`.
    """
    width = calls.shape[1]
    enough = math.ceil(math.sqrt(NEGLIGIBLE_LOG_PROBABILITY * width))
    return calls if enough >= width else -np.sort(-calls, axis=1)[:, :enough]


def _levels(points: int) -> Floats:
    """(points,): middles of that many equal parts of the unit interval."""
    return np.asarray((np.arange(points) + 0.5) / points)


def _shuffled_parts(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Stratified uniform draws: one from each equal part of the unit interval, shuffled (last axis)."""
    parts = rng.permuted(np.broadcast_to(np.arange(float(shape[-1])), shape), axis=-1)
    parts += rng.random(shape)
    parts /= shape[-1]
    return parts


def _raced(
    part: Floats, copies: Floats, coins: Floats | None, *, after_ms: float, share: float
) -> tuple[float, float]:
    """Sums over requests of the mean, ms, and mean square, ms², of the slowest call."""
    x = part[:, :, None]
    raced = np.minimum(x, after_ms + copies[: len(part)])
    if part.shape[1] == 1:  # one call: the coin is an exact mixture of racing and not racing
        ends, alone = raced[:, 0, :], part[:, 0]
        one = share * ends.mean(axis=1).sum() + (1 - share) * alone.sum()
        two = share * (ends * ends).mean(axis=1).sum() + (1 - share) * (alone * alone).sum()
        return float(one), float(two)
    if coins is not None:
        raced = np.where((x > after_ms) & (coins[: len(part)] < share), raced, x)
    ends = np.fmax.reduce(raced, axis=1)
    return float(ends.mean(axis=1).sum()), float((ends * ends).mean(axis=1).sum())


def copy_generator(seed: int, place: int = 0) -> np.random.Generator:
    """Random generator for copies that are drawn in advance for every call of a stage.

    The seed has a third part that no other generator uses. A synthetic profile may have been drawn from
    `[seed, place]`, and drawing its copies from the same numbers would make every copy as slow as its call.

    Args:
        seed: seed of the simulation, 0 or more.
        place: index of the stage in its profile, 0 or more.
    """
    return np.random.default_rng([seed, place, COPY_SEED])


def races(calls: Floats, distribution: EmpiricalDistribution, rho: float) -> Races:
    """Races of a stage: the closed form for independent copies, sampled points for correlated ones.

    Args:
        calls: (n,) or (n, width) latencies, milliseconds; NaN for no call.
        rho: correlation of a copy's normal score with its call's, 0 or more and below 1.
    """
    return (
        CorrelatedRaces.of(calls, distribution, rho) if rho > 0 else IndependentRaces.of(calls, distribution)
    )


def correlated_copies(
    distribution: EmpiricalDistribution, calls: Floats, normal: Floats, rho: float
) -> Floats:
    """Latencies of copies given their calls, by a Gaussian copula.

    Args:
        distribution: latency distribution of a call, and of a copy.
        calls: (n,) latencies of the calls, milliseconds, or any shape that broadcasts to that of `normal`;
            NaN for no call.
        normal: (n,) standard normal values, one unit of variance each, or any other shape.
        rho: correlation of normal scores, 0 or more and below 1.

    Returns:
        (n,) latencies of the copies, milliseconds, in the shape of `normal`; arbitrary where there is no
        call.
    """
    if rho == 0:
        return distribution.quantile(ndtr(normal))
    score = rho * normal_scores(distribution, calls) + np.sqrt(1.0 - rho * rho) * normal
    return distribution.quantile(ndtr(np.nan_to_num(score)))


def normal_scores(distribution: EmpiricalDistribution, values: Floats) -> Floats:
    """Standard normal quantiles of the ranks of latencies in a distribution; ties take their middle rank."""
    cdf = np.concatenate(([0.0], distribution.cdf))
    below = cdf[np.searchsorted(distribution.values, values, side="left")]
    upto = cdf[np.searchsorted(distribution.values, values, side="right")]
    edge = 0.5 / max(1, len(distribution))
    return np.asarray(ndtri(np.clip((below + upto) / 2, edge, 1 - edge)))
