"""The pool of a stage's call latencies: a weighted sample from which time-outs are read and copies drawn."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kwiken.arrays import Bools, Floats
from kwiken.profile.profile import StageProfile

# A time-out that would reissue within this relative distance of the wanted share is taken as it is;
# farther away (ties, or a time-out's atom) the tied calls are thinned by a coin.
CLOSE = 0.01


@dataclass(frozen=True)
class TimeOuts:
    """Time-outs for some shares of calls to reissue, arrays of one shape.

    Attributes:
        after_ms: age at which a copy may go; infinite where nothing is reissued.
        probability: share of the calls that reach that age and get a copy.
        fraction: share of all calls that get one.
    """

    after_ms: Floats
    probability: Floats
    fraction: Floats


@dataclass(frozen=True)
class Pool:
    """Latencies of single calls with their weights.

    Attributes:
        values: (k,) ascending, milliseconds.
        weights: (k,) of sum 1; None for equal weights.
    """

    values: Floats
    weights: Floats | None = None

    @classmethod
    def of(cls, latencies: Floats) -> Pool:
        """The pool of fully observed latencies.

        Args:
            latencies: (n,) or (n, width), milliseconds; NaN stands for no call.
        """
        flat = np.ravel(latencies)
        flat = np.sort(flat)  # NaN goes last
        return cls(flat[: int(np.searchsorted(flat, np.nan))])

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mass(self) -> Floats:
        """(k,): the weights, written out where they are equal."""
        return np.full(len(self), 1 / max(1, len(self))) if self.weights is None else self.weights

    @cached_property
    def cdf(self) -> Floats:
        """(k,): share of calls that take at most the k-th value (exact at the last of tied values)."""
        if self.weights is None:
            return np.arange(1, len(self) + 1) / max(1, len(self))
        cdf = np.cumsum(self.weights)
        cdf[-1:] = 1.0  # the sum of rounded weights must not leave a ghost of a tail
        return cdf

    def tail(self, ages: Floats) -> Floats:
        """(k,): share of calls that take longer than each of (k,) ages, milliseconds."""
        at = np.searchsorted(self.values, ages, side="right")
        if self.weights is None:
            return (len(self) - at) / max(1, len(self))
        return 1.0 - np.concatenate(([0.0], self.cdf))[at]

    def time_outs(self, fractions: Floats) -> TimeOuts:
        """The time-outs at which these shares of the calls are reissued (Kwiken section 5.2.1).

        The age is the `(1 - r)` quantile `x[round(n (1 - r)) - 1]`, and a call older than that gets a copy.
        Where ties keep that from reissuing `r`, as at a truncating time-out, the age is set to the next
        value below and the calls thinned by a coin, so that exactly `r` are reissued.

        Args:
            fractions: (k,): the shares, from 0 to 1.
        """
        wanted = np.asarray(fractions, dtype=float)
        ranks = self._ranks(wanted)
        after = np.where(ranks > 0, self.values[np.maximum(ranks, 1) - 1], 0.0)
        tail = self.tail(after)
        short = tail < wanted * (1 - CLOSE)
        if short.any():
            below = np.searchsorted(self.values, after[short], side="left")
            after[short] = np.where(below > 0, self.values[np.maximum(below, 1) - 1], 0.0)
            tail[short] = self.tail(after[short])
        none = (wanted <= 0) | (tail <= 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            probability = np.where(tail > wanted * (1 + CLOSE), wanted / tail, 1.0)
        probability[none] = 1.0
        after[none] = np.inf
        return TimeOuts(after, probability, np.where(none, 0.0, probability * tail))

    def _ranks(self, fractions: Floats) -> NDArray[np.int64]:
        if self.weights is None:
            return np.rint(len(self) * (1 - fractions)).astype(np.int64)
        cdf = np.concatenate(([0.0], self.cdf))
        above = np.minimum(np.searchsorted(cdf, 1 - fractions), len(self))
        below = np.maximum(above - 1, 0)
        nearer = np.abs(cdf[above] - (1 - fractions)) <= np.abs(cdf[below] - (1 - fractions))
        return np.where(nearer, above, below)

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws, milliseconds.

        Args:
            rng: where chance comes from.
            size: how many.
        """
        if self.weights is None:
            return self.values[rng.integers(len(self), size=size)]
        return self.quantile(rng.random(size))

    def quantile(self, shares: Floats) -> Floats:
        """(k,): the smallest values, milliseconds, that at least (k,) shares of the calls do not pass."""
        at = np.searchsorted(self.cdf, shares, side="left")
        return self.values[np.minimum(at, len(self) - 1)]

    def merged(self) -> Pool:
        """The same law with equal values as one."""
        last = np.append(np.diff(self.values) > 0, True)
        if last.all():
            return self
        return Pool(self.values[last], np.diff(self.cdf[last], prepend=0.0))

    def thinned(self, limit: int) -> Pool:
        """A pool of at most about `limit` values: the upper half of them exact, the rest means of groups.

        The slowest `limit / 2` calls decide the tail and stay as they are. The others are merged into
        neighbours' groups of equal count, each at its weighted mean, so the pool's mean does not change.
        """
        if len(self) <= limit:
            return self
        weights = self.mass
        body = len(self) - limit // 2
        starts = np.linspace(0, body, limit // 2, endpoint=False).astype(np.int64)
        mass = np.add.reduceat(weights[:body], starts)
        means = np.add.reduceat(weights[:body] * self.values[:body], starts) / mass
        return Pool(np.concatenate((means, self.values[body:])), np.concatenate((mass, weights[body:])))


def kaplan_meier(latencies: Floats, censored: Bools) -> Pool:
    """The product-limit estimate of a latency's law from calls of which some were cut short.

    Args:
        latencies: (k,) milliseconds, no NaN.
        censored: (k,): the true latency is at least what stands in `latencies`.

    Returns:
        The estimate as weights over the values seen (Kaplan and Meier 1958). What mass lies beyond the
        largest observed latency is put at the largest value, censored or not: a lower bound of the tail.
    """
    order = np.lexsort((censored, latencies))  # at ties, ends come before cuts
    values, ended = latencies[order], ~censored[order]
    hazard = ended / np.arange(len(values), 0, -1)
    survivors = np.cumprod(1.0 - hazard)
    weights = np.concatenate(([1.0], survivors[:-1])) * hazard
    weights[-1] += survivors[-1]
    kept = weights > 0
    return Pool(values[kept], weights[kept])


def pool(stage: StageProfile) -> Pool:
    """The pool of single calls of a stage, over all its shards; empty where it was never called.

    Args:
        stage: what was learned of it.
    """
    if not stage.censored.any():
        return Pool.of(stage.calls_ms)
    there = ~np.isnan(stage.calls_ms)
    return kaplan_meier(stage.calls_ms[there], stage.censored[there])


def complete_calls(stage: StageProfile, calls: Pool, rng: np.random.Generator) -> Floats:
    """(n, width): the stage's calls with every censored one filled in from the pool beyond its bound.

    A call cut at `c` gets a draw from the Kaplan-Meier law given more than `c`; the rows then follow that
    law, and stay joint with the other stages. Beyond the pool's end the bound itself stands.
    """
    if not stage.censored.any():
        return stage.calls_ms
    filled = stage.calls_ms.copy()
    cut = stage.censored & ~np.isnan(filled)
    bounds = filled[cut]
    floor = 1.0 - calls.tail(bounds)
    filled[cut] = np.maximum(bounds, calls.quantile(floor + (1.0 - rng.random(len(bounds))) * (1.0 - floor)))
    return filled
