"""Empirical distribution of call latencies: quantiles serve as time-outs, draws as copies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Bools, Floats

ROUNDING = 1e-9  # calls: what a share may miss a whole number of calls by


@dataclass(frozen=True)
class TimeOuts:
    """Time-outs for given shares of calls to reissue; (k,) arrays.

    Attributes:
        after_ms: age of a call at which its copy is sent, milliseconds; infinite where nothing is reissued.
        fraction: share of all calls that are older, 0 to 1: at most the share that was asked for.
    """

    after_ms: Floats
    fraction: Floats


@dataclass(frozen=True)
class EmpiricalDistribution:
    """Weighted sample of the latencies of single calls.

    Attributes:
        values: (k,) latencies, ascending, milliseconds.
        weights: (k,) weights of the values, of sum 1; None for equal weights.
    """

    values: Floats
    weights: Floats | None = None

    @classmethod
    def of(cls, latencies: Floats) -> EmpiricalDistribution:
        """Distribution of fully observed latencies.

        Args:
            latencies: (n,) or (n, width) latencies, milliseconds; NaN for no call.
        """
        flat = np.ravel(latencies)
        flat = np.sort(flat)  # NaN goes last
        return cls(flat[: int(np.searchsorted(flat, np.nan))])

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mass(self) -> Floats:
        """(k,): weights of the values, of sum 1."""
        return np.full(len(self), 1 / max(1, len(self))) if self.weights is None else self.weights

    @cached_property
    def cdf(self) -> Floats:
        """(k,): share of calls that take at most the k-th value; of tied values, only the last is exact."""
        if self.weights is None:
            return np.arange(1, len(self) + 1) / max(1, len(self))
        cdf = np.cumsum(self.weights)
        cdf[-1:] = 1.0  # weights are rounded: a sum below 1 would leave a tail beyond the largest value
        return cdf

    def tail(self, ages: Floats) -> Floats:
        """(k,): share of calls that take longer than each age.

        Args:
            ages: (k,) ages of a call, milliseconds.
        """
        at = np.searchsorted(self.values, ages, side="right")
        if self.weights is None:
            return (len(self) - at) / max(1, len(self))
        return 1.0 - np.concatenate(([0.0], self.cdf))[at]

    def time_outs(self, fractions: Floats) -> TimeOuts:
        """Time-outs at which at most given shares of the calls are reissued (Kwiken section 5.2.1).

        The age for a share `r` is the least value that at most `r` of the calls exceed: without ties the
        `(1 - r)` quantile. Tied values are copied all or not at all. To spend the rest of `r` on earlier
        calls would take a coin for all late calls, and leave the slowest ones without a copy.

        Args:
            fractions: (k,) shares of the calls to reissue, 0 to 1.
        """
        wanted = np.asarray(fractions, dtype=float)
        ranks = self._ranks(wanted)
        after = np.where(ranks > 0, self.values[np.maximum(ranks, 1) - 1], 0.0)
        share = self.tail(after)
        none = (wanted <= 0) | (share <= 0)
        return TimeOuts(np.where(none, np.inf, after), np.where(none, 0.0, share))

    def _ranks(self, fractions: Floats) -> NDArray[np.int64]:
        """(k,): number of calls, from the fastest, that get no copy: the least that leaves the shares."""
        if self.weights is None:
            return np.ceil(len(self) * (1 - fractions) - ROUNDING).astype(np.int64)
        cdf = np.concatenate(([0.0], self.cdf))
        return np.minimum(np.searchsorted(cdf, 1 - fractions - ROUNDING / max(1, len(self))), len(self))

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,): independent draws, milliseconds.

        Args:
            rng: random generator to draw from.
            size: number of draws, 0 or more.
        """
        if self.weights is None:
            return self.values[rng.integers(len(self), size=size)]
        return self.quantile(rng.random(size))

    def quantile(self, shares: Floats) -> Floats:
        """(k,): quantiles, milliseconds: the smallest values that at least the given shares do not exceed.

        Args:
            shares: (k,) shares of the calls, 0 to 1.
        """
        at = np.searchsorted(self.cdf, shares, side="left")
        return self.values[np.minimum(at, len(self) - 1)]

    def merged(self) -> EmpiricalDistribution:
        """The same distribution with tied values merged."""
        last = np.append(np.diff(self.values) > 0, True)
        if last.all():
            return self
        return EmpiricalDistribution(self.values[last], np.diff(self.cdf[last], prepend=0.0))

    def thinned(self, limit: int) -> EmpiricalDistribution:
        """Approximation by about `limit` values: an exact tail, and group means below it.

        The slowest `limit / 2` values decide the tail and are kept. The others are merged into groups of
        neighbours, of equal count, each at its weighted mean, so the mean of the distribution is unchanged.

        Args:
            limit: number of values to keep, 2 or more; a smaller distribution is returned unchanged.
        """
        if len(self) <= limit:
            return self
        weights = self.mass
        body = len(self) - limit // 2
        starts = np.linspace(0, body, limit // 2, endpoint=False).astype(np.int64)
        mass = np.add.reduceat(weights[:body], starts)
        means = np.add.reduceat(weights[:body] * self.values[:body], starts) / mass
        return EmpiricalDistribution(
            np.concatenate((means, self.values[body:])), np.concatenate((mass, weights[body:]))
        )


def kaplan_meier(latencies: Floats, censored: Bools) -> EmpiricalDistribution:
    """Product-limit estimate of a latency distribution from calls of which some were cancelled.

    Args:
        latencies: (k,) latencies, milliseconds, without NaN.
        censored: (k,) whether the call was cancelled, so that its true latency is at least the value given.

    Returns:
        The estimate as weights over the values seen (Kaplan and Meier 1958). Mass beyond the largest observed
        latency is put at the largest value, censored or not: a lower bound of the tail.
    """
    order = np.lexsort((censored, latencies))  # of tied latencies, observed ones come before cancelled ones
    values, ended = latencies[order], ~censored[order]
    hazard = ended / np.arange(len(values), 0, -1)
    survivors = np.cumprod(1.0 - hazard)
    weights = np.concatenate(([1.0], survivors[:-1])) * hazard
    weights[-1] += survivors[-1]
    kept = weights > 0
    return EmpiricalDistribution(values[kept], weights[kept])
