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
from kwiken.model.profile.profile import SlowBand
from kwiken.tail.curves.fan_out import RankedCalls, RankedCopies

MAX_REQUESTS = 1 << 14  # requests that a curve of correlated copies is computed from
MAX_CELLS = 1 << 20  # calls times points in memory at once
NEGLIGIBLE_LOG_PROBABILITY = 30.0  # minus the logarithm of a probability too small to change a moment
MAX_VALUES = 1 << 14  # distinct values of a copy's distribution; larger ones are thinned
Useless = tuple[SlowBand, ...]
MIN_POINTS, MAX_POINTS = 8, 64  # of a copy's conditional distribution


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
class BandedRaces:
    """Races of single calls with copies that are of no use with a probability that depends on the call.

    A copy of no use changes nothing, so it counts as one that the coin withheld: each band of latencies has
    the closed form with a coin of its own.

    Attributes:
        bands: by band: races of its calls, its share of the requests, and the probability of a useful copy.
    """

    bands: tuple[tuple[IndependentRaces, float, float], ...]

    @classmethod
    def of(cls, calls: Floats, distribution: EmpiricalDistribution, useless: Useless) -> BandedRaces:
        """Races of (n,) or (n, 1) latencies."""
        single = calls.reshape(len(calls))
        shares = share_useless(useless, single)
        return cls(
            tuple(
                (
                    IndependentRaces.of(single[shares == share], distribution),
                    float((shares == share).mean()),
                    1.0 - share,
                )
                for share in np.unique(shares).tolist()
            )
        )

    def moments(self, after_ms: Floats, probability: float) -> tuple[Floats, Floats]:
        """See `Races`."""
        mean, square = np.zeros(len(after_ms)), np.zeros(len(after_ms))
        for race, share, useful in self.bands:
            one, two = race.moments(after_ms, max(probability * useful, np.finfo(float).tiny))
            mean += share * one
            square += share * two
        return mean, square


@dataclass(frozen=True)
class CorrelatedRaces:
    """Races with copies whose normal scores have correlation `rho` with those of their calls.

    Attributes:
        calls: (n, k) latencies, milliseconds, the request with the slowest call first; NaN for no call. Wide
            fan-outs keep the slowest k calls of each request.
        distribution: latency distribution of a call, and of a copy.
        rho: correlation of normal scores, 0 or more and below 1.
        useless: probability that a copy is of no use, by the latency of its call.
    """

    calls: Floats
    distribution: EmpiricalDistribution
    rho: float
    useless: Useless = ()

    @classmethod
    def of(
        cls, calls: Floats, distribution: EmpiricalDistribution, rho: float, useless: Useless = ()
    ) -> CorrelatedRaces:
        """Races of (n,) or (n, width) latencies; of more than `MAX_REQUESTS` requests every k-th is used."""
        matrix = calls.reshape(len(calls), -1)
        matrix = matrix[:: max(1, -(-len(matrix) // MAX_REQUESTS))]
        matrix = _slowest_calls(matrix)
        slowest = np.fmax.reduce(matrix, axis=1, initial=0.0)
        distribution = distribution.thinned(MAX_VALUES)
        ordered = np.ascontiguousarray(matrix[np.argsort(-slowest, kind="stable")])
        return cls(ordered, distribution, rho, useless)

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
        return correlated_copies(self.distribution, part[:, :, None], normal, self.rho, self.useless)


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


def races(calls: Floats, distribution: EmpiricalDistribution, rho: float, useless: Useless = ()) -> Races:
    """Races of a stage: the closed form for independent copies, sampled points for correlated ones.

    Args:
        calls: (n,) or (n, width) latencies, milliseconds; NaN for no call.
        rho: correlation of a copy's normal score with its call's, 0 or more and below 1.
        useless: probability that a copy is of no use, by the latency of its call.
    """
    if rho == 0 and useless and calls.size == len(calls):
        return BandedRaces.of(calls, distribution, useless)
    if rho > 0 or useless:
        return CorrelatedRaces.of(calls, distribution, rho, useless)
    return IndependentRaces.of(calls, distribution)


def correlated_copies(
    distribution: EmpiricalDistribution, calls: Floats, normal: Floats, rho: float, useless: Useless = ()
) -> Floats:
    """Latencies of copies given their calls: some are of no use, the others follow a Gaussian copula.

    Args:
        distribution: latency distribution of a call, and of a copy.
        calls: (n,) latencies of the calls, milliseconds, or any shape that broadcasts to that of `normal`;
            NaN for no call.
        normal: (n,) standard normal values, one unit of variance each, or any other shape.
        rho: correlation of normal scores, 0 or more and below 1.
        useless: probability that a copy is of no use, by the latency of its call.

    Returns:
        (n,) latencies of the copies, milliseconds, in the shape of `normal`; infinite for those of no use,
        arbitrary where there is no call.
    """
    lost = None
    if useless:  # the uppermost values are those of no use; the others are spread over the whole range again
        level, share = ndtr(normal), share_useless(useless, calls)
        lost = level >= 1.0 - share
        normal = ndtri(np.where(lost, 0.5, level / np.maximum(1.0 - share, np.finfo(float).tiny)))
    if rho == 0:
        copies = distribution.quantile(ndtr(normal))
    else:
        score = rho * normal_scores(distribution, calls) + np.sqrt(1.0 - rho * rho) * normal
        copies = distribution.quantile(ndtr(np.nan_to_num(score)))
    return copies if lost is None else np.where(lost, np.inf, copies)


def share_useless(useless: Useless, calls_ms: Floats) -> Floats:
    """Probability that a copy is of no use, in the shape of the calls' latencies.

    Args:
        useless: bands by rising latency, one or more.
    """
    shares = np.array([0.0, *(band.share for band in useless)])
    edges = np.array([band.from_ms for band in useless])
    return np.asarray(shares[np.searchsorted(edges, np.nan_to_num(calls_ms), side="left")])


def normal_scores(distribution: EmpiricalDistribution, values: Floats) -> Floats:
    """Standard normal quantiles of the ranks of latencies in a distribution; ties take their middle rank."""
    cdf = np.concatenate(([0.0], distribution.cdf))
    below = cdf[np.searchsorted(distribution.values, values, side="left")]
    upto = cdf[np.searchsorted(distribution.values, values, side="right")]
    edge = 0.5 / max(1, len(distribution))
    return np.asarray(ndtri(np.clip((below + upto) / 2, edge, 1 - edge)))
