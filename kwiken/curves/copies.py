"""Races of calls with their copies: exact moments for independent copies, and for correlated ones.

Slow requests are often slow everywhere, so a copy's latency hangs together with its call's. The link is a
Gaussian copula: both have the stage's law, and their normal scores have correlation rho. With rho = 0 the
closed form of `_fanout` applies; else a copy's law given its call is taken at a few points of equal
probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from kwiken.arrays import Floats
from kwiken.curves.fan_out import RankedCalls, slowest_moments
from kwiken.profile import Pool

MOST_ROWS = 1 << 14  # requests that a curve of correlated copies looks at
MOST_CELLS = 1 << 20  # calls times points that are held at once
FAR = 30.0  # minus the logarithm of a chance that adds nothing
MOST_POOL = 1 << 14  # values of a copy's law that are kept apart
MOST_POINTS, LEAST_POINTS = 64, 8
DEALT = 0x6B77  # in the seed of copies that are dealt to every call


class Races(Protocol):
    """A stage's calls against their copies."""

    def moments(self, after_ms: Floats, probability: float) -> tuple[Floats, Floats]:
        """Mean (ms) and mean square (ms²) of the slowest call for each of several ages of reissue.

        Args:
            after_ms: (g,) ages; infinite for no copy.
            probability: share of the calls of that age that get one.
        """


@dataclass(frozen=True)
class IndependentRaces:
    """Copies drawn on their own: the closed form, exact for the samples."""

    calls: RankedCalls
    pool: Pool

    def moments(self, after_ms: Floats, probability: float) -> tuple[Floats, Floats]:
        """See `Races`."""
        return slowest_moments(self.calls, self.pool, after_ms, probability=probability)


@dataclass(frozen=True)
class CorrelatedRaces:
    """Copies whose normal score has correlation `rho` with their call's.

    Attributes:
        calls: (n, k) calls, the request with the slowest one first; NaN for no call. Of wide fan-outs the
            slowest k of each request.
        pool: law of a call and of a copy.
        rho: from 0 up to 1, the latter excluded.
    """

    calls: Floats
    pool: Pool
    rho: float

    @classmethod
    def of(cls, calls: Floats, pool: Pool, rho: float) -> CorrelatedRaces:
        """From (n,) or (n, width) latencies; beyond `MOST_ROWS` requests only every k-th is used."""
        matrix = calls.reshape(len(calls), -1)
        matrix = matrix[:: max(1, -(-len(matrix) // MOST_ROWS))]
        matrix = _slowest_calls(matrix)
        slowest = np.fmax.reduce(matrix, axis=1, initial=0.0)
        law = pool.thinned(MOST_POOL)
        return cls(np.ascontiguousarray(matrix[np.argsort(-slowest, kind="stable")]), law, rho)

    def moments(self, after_ms: Floats, probability: float) -> tuple[Floats, Floats]:
        """See `Races`. A copy's law is cut into points of equal weight; fan-outs shuffle these by shard."""
        slowest = np.fmax.reduce(self.calls, axis=1, initial=0.0)
        mean, square = np.zeros(len(after_ms)), np.zeros(len(after_ms))
        late = [int(n) for n in np.searchsorted(-slowest, -after_ms, side="left")]
        for g, count in enumerate(late):
            mean[g], square[g] = slowest[count:].sum(), (slowest[count:] ** 2).sum()
        width = self.calls.shape[1]
        points = int(np.clip(MOST_CELLS // max(1, self.calls.size), LEAST_POINTS, MOST_POINTS))
        block = max(1, MOST_CELLS // (points * width))
        shuffles = np.random.default_rng(0).spawn(2)  # the same each time, so that curves repeat
        for at in range(0, max(late, default=0), block):
            part = self.calls[at : at + block]
            copies = self._copies(part, points, shuffles[0])
            tossed = probability < 1 and width > 1
            coins = _shuffled_parts((*part.shape, points), shuffles[1]) if tossed else None
            for g, count in enumerate(late):
                if count > at:
                    one, two = _raced(
                        part[: count - at], copies, coins, after_ms=float(after_ms[g]), share=probability
                    )
                    mean[g] += one
                    square[g] += two
        return mean / max(1, len(self.calls)), square / max(1, len(self.calls))

    def _copies(self, part: Floats, points: int, rng: np.random.Generator) -> Floats:
        """(k, width, points) latencies of copies.

        Of single calls the middles of equal parts of the law. Of a fan-out a draw from each part, or its
        slowest copies, which decide when it is over, would never be slower than the middle of the last part.
        """
        shape = (*part.shape, points)
        if part.shape[1] == 1:
            normal = np.broadcast_to(ndtri(_levels(points)), shape)
        else:
            normal = ndtri(_shuffled_parts(shape, rng))
        return linked(self.pool, part[:, :, None], normal, self.rho)


def _slowest_calls(calls: Floats) -> Floats:
    """(n, k): the slowest calls of each request, so many that the others never decide when it is over.

    They do only where the copies of all k are faster than the next call: with a chance below `(1 - k / n)^k`
    of n shards, as copies of slow calls are no faster than others, which is below `exp(-k² / n)`.
    """
    width = calls.shape[1]
    enough = math.ceil(math.sqrt(FAR * width))
    return calls if enough >= width else -np.sort(-calls, axis=1)[:, :enough]


def _levels(points: int) -> Floats:
    """(points,): the middles of as many equal parts of a unit."""
    return np.asarray((np.arange(points) + 0.5) / points)


def _shuffled_parts(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draws from a unit, one of each equal part along the last axis, in an order of their own each time."""
    parts = rng.permuted(np.broadcast_to(np.arange(float(shape[-1])), shape), axis=-1)
    parts += rng.random(shape)
    parts /= shape[-1]
    return parts


def _raced(
    part: Floats, copies: Floats, coins: Floats | None, *, after_ms: float, share: float
) -> tuple[float, float]:
    """Sums over requests of the slowest call's mean and mean square."""
    x = part[:, :, None]
    raced = np.minimum(x, after_ms + copies[: len(part)])
    if part.shape[1] == 1:  # the coin is a mixture, exact
        ends, alone = raced[:, 0, :], part[:, 0]
        one = share * ends.mean(axis=1).sum() + (1 - share) * alone.sum()
        two = share * (ends * ends).mean(axis=1).sum() + (1 - share) * (alone * alone).sum()
        return float(one), float(two)
    if coins is not None:
        raced = np.where((x > after_ms) & (coins[: len(part)] < share), raced, x)
    ends = np.fmax.reduce(raced, axis=1)
    return float(ends.mean(axis=1).sum()), float((ends * ends).mean(axis=1).sum())


def dealer(seed: int, place: int = 0) -> np.random.Generator:
    """Where copies that are dealt to every call come from, by stage.

    Normal values drawn for calls in their order would be those of calls that were themselves drawn with such
    a seed, as in somebody's made-up profile, and copies as slow as their calls; so this seed is nobody's.
    """
    return np.random.default_rng([seed, place, DEALT])


def races(calls: Floats, pool: Pool, rho: float) -> Races:
    """The races of a stage: closed form for independent copies, points for correlated ones.

    Args:
        calls: (n,) or (n, width) latencies, milliseconds; NaN for no call.
        pool: law of a copy.
        rho: correlation of a copy's normal score with its call's, from 0 to below 1.
    """
    return CorrelatedRaces.of(calls, pool, rho) if rho > 0 else IndependentRaces(RankedCalls.of(calls), pool)


def linked(pool: Pool, calls: Floats, normal: Floats, rho: float) -> Floats:
    """Latencies of copies, given their calls: the Gaussian copula.

    Args:
        pool: law of both.
        calls: latencies of the calls, of any shape that fits `normal`; NaN for no call.
        normal: standard normal values, one a copy.
        rho: correlation of normal scores.

    Returns:
        Latencies of the shape of `normal`; arbitrary where there is no call.
    """
    if rho == 0:
        return pool.quantile(ndtr(normal))
    score = rho * normal_scores(pool, calls) + np.sqrt(1.0 - rho * rho) * normal
    return pool.quantile(ndtr(np.nan_to_num(score)))


def normal_scores(pool: Pool, values: Floats) -> Floats:
    """Standard normal quantiles of latencies' ranks within a pool; ties take their middle."""
    cdf = np.concatenate(([0.0], pool.cdf))
    below = cdf[np.searchsorted(pool.values, values, side="left")]
    upto = cdf[np.searchsorted(pool.values, values, side="right")]
    edge = 0.5 / max(1, len(pool))
    return np.asarray(ndtri(np.clip((below + upto) / 2, edge, 1 - edge)))
