"""The variance-response curve of a stage: what reissuing a share of its calls does to its variance.

At every share the curve holds the policy of least variance among `single` (one copy at a time-out; Kwiken
section 5.2.1) and SingleR (an earlier age, with a coin; Kaler, He and Elnikety, SPAA 2017), whose end at age
zero is the source's `immediate`. For single calls the coin mixes two laws, so mean and mean square are linear
in it: every SingleR of the grid costs nothing beyond the time-outs' own moments.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from kwiken.arrays import Bools, Floats
from kwiken.curves.convex_hull import lower_hull
from kwiken.curves.copies import Races, races
from kwiken.errors import InputError
from kwiken.profile import Pool
from kwiken.service import Reissue

_FINE = (0.0, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1)
GRID: tuple[float, ...] = (*_FINE, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
POLICIES = ("single", "single_r")
COINS = (0.6, 0.3, 0.1)  # of SingleR at fan-outs, where each coin takes a closed form of its own
WORTH = 1e-3  # SingleR replaces `single` where it lowers the variance by more than this share


@dataclass(frozen=True)
class _Points:
    """Policies and what they do; (k,) arrays, by ascending fraction."""

    fraction: Floats
    after_ms: Floats
    probability: Floats
    coin: Floats
    mean: Floats
    square: Floats

    @property
    def variance(self) -> Floats:
        return np.maximum(0.0, self.square - self.mean * self.mean)

    def taken(self, where: Bools | np.ndarray[tuple[int], np.dtype[np.int64]]) -> _Points:
        return _Points(
            self.fraction[where],
            self.after_ms[where],
            self.probability[where],
            self.coin[where],
            self.mean[where],
            self.square[where],
        )


@dataclass(frozen=True)
class Curve:
    """Variance of a stage's latency against the share of its calls that are reissued (Kwiken section 5.2.1).

    Attributes:
        fraction: (k,) ascending from 0: share of the stage's calls that get a copy.
        mean_ms: (k,): mean latency of the stage then, exact for the samples.
        variance: (k,): variance of its latency then, ms², exact for the samples.
        hull: (k,): lower convex, non-increasing hull of `variance`.
        vertices: (k,): which points the hull rests on.
        after_ms: (k,): age of a call at which its copy goes; infinite at fraction 0.
        probability: (k,): share of the calls of that age that get one.
        coin: (k,): the same as meant by the policy: 1 for `single`. `probability` is smaller where ties keep
            an age from being passed by just the right share of calls.
        races: the calls and their copies, for exact values between the points.
        ages: what `single` does at each age, of single calls: all that SingleR takes.
        single_r: whether SingleR is among the policies.
        pool: law of a copy.
        correlation: of a copy's normal score with its call's.
    """

    fraction: Floats
    mean_ms: Floats
    variance: Floats
    hull: Floats
    vertices: Bools
    after_ms: Floats
    probability: Floats
    coin: Floats
    races: Races
    pool: Pool
    ages: _Points | None = None
    single_r: bool = False
    correlation: float = 0.0

    def hull_at(self, fraction: float) -> float:
        """The hull between its points, ms²."""
        return float(np.interp(fraction, self.fraction, self.hull))

    def coin_at(self, fraction: float) -> float:
        """The coin of the best policy at that share of calls: 1 for `single`, less for SingleR."""
        own = _with_coin(self.races, self.pool, np.array([min(1.0, fraction)]), 1.0)
        coins = self._coins_to_try(float(own.fraction[0]))
        if not len(coins) or not own.fraction[0] > 0:
            return 1.0
        variance = self._variance_with(own, coins)
        best = int(np.argmin(variance))
        return float(coins[best]) if variance[best] < (1 - WORTH) * own.variance[0] else 1.0

    def _coins_to_try(self, fraction: float) -> Floats:
        """At single calls those of every age; at fan-outs of the points beside and the next of the hull."""
        if not self.single_r:
            return np.empty(0)
        if self.ages is not None:
            return np.asarray(fraction / self.ages.fraction[self.ages.fraction > fraction])
        at = int(np.searchsorted(self.fraction, fraction))
        corner = np.flatnonzero(self.vertices & (self.fraction > fraction))[:1]
        near = np.unique(np.concatenate((np.arange(max(1, at - 1), min(at + 1, len(self.coin))), corner)))
        coins = fraction * self.coin[near] / self.fraction[near]
        return np.unique(coins[coins < 1])

    def _variance_with(self, own: _Points, coins: Floats) -> Floats:
        if self.ages is None:
            tried = [_with_coin(self.races, self.pool, own.fraction, coin) for coin in coins.tolist()]
            return np.array([points.variance[0] for points in tried])
        later = self.ages.taken(self.ages.fraction > own.fraction[0])
        mean = self.ages.mean[0] + coins * (later.mean - self.ages.mean[0])
        square = self.ages.square[0] + coins * (later.square - self.ages.square[0])
        return np.asarray(square - mean * mean)

    def policy(self, fraction: float, *, coin: float | None = None) -> Reissue | None:
        """The policy that reissues that share of the calls; None where it is less than any call seen.

        Args:
            fraction: share of the calls.
            coin: share of the late calls that get a copy, at least `fraction`; the curve's own by default.
        """
        if fraction * len(self.pool) < 0.5:  # noqa: PLR2004 - rounds to no call
            return None
        chance = self.coin_at(fraction) if coin is None else min(1.0, max(coin, fraction))
        chosen = self.pool.time_outs(np.array([min(1.0, fraction / chance)]))
        if not np.isfinite(chosen.after_ms[0]):
            return None
        return Reissue(
            after_ms=float(chosen.after_ms[0]),
            probability=min(1.0, float(chosen.probability[0]) * chance),
            fraction=min(1.0, float(chosen.fraction[0]) * chance),
        )

    def moments(self, policy: Reissue | None) -> tuple[float, float]:
        """Mean (ms) and variance (ms²) of the stage under a policy of one copy, exact for the samples."""
        if policy is None:
            return float(self.mean_ms[0]), float(self.variance[0])
        mean, square = self.races.moments(np.array([policy.after_ms]), policy.probability)
        return float(mean[0]), float(max(0.0, square[0] - mean[0] ** 2))


def reissue_curve(
    calls_ms: Floats,
    pool: Pool | None = None,
    *,
    grid: tuple[float, ...] = GRID,
    policies: Collection[str] = POLICIES,
    correlation: float = 0.0,
) -> Curve:
    """The curve of the best policy of one copy at each share of calls.

    After Kwiken section 5.2.1; SingleR: Kaler, He and Elnikety 2017.

    Args:
        calls_ms: (n,) or (n, width) latencies of the calls, milliseconds; NaN stands for no call.
            The stage's latency is its slowest call's, and copies are per call.
        pool: law of a copy; the calls' own by default.
        grid: shares of the calls to reissue, ascending from 0.
        policies: which of `POLICIES` to choose from.
        correlation: of a copy's normal score with its call's, from 0 to below 1 (see `_copies`).

    Returns:
        A curve with at most as many points as the grid; shares that the samples cannot tell apart fall
        together. No sampling is involved where copies are independent: O(n log n) a point.

    Raises:
        InputError: for latencies that are negative or infinite, or none at all; for an unknown policy, or a
            correlation outside [0, 1).
    """
    matrix = np.asarray(calls_ms, dtype=float)
    copies = Pool.of(matrix) if pool is None else pool
    _check(matrix, copies, policies, correlation)
    race = races(matrix, copies, correlation)
    shares = np.asarray(grid, dtype=float)
    if matrix.ndim > 1 and matrix.shape[1] > 1:
        ages, best = None, _fan_out_points(race, copies, shares, policies)
    else:
        ages = _distinct(_with_coin(race, copies, shares, 1.0))
        best = _single_points(ages, policies)
    hull, vertices = lower_hull(best.fraction, best.variance)
    return Curve(
        fraction=best.fraction,
        mean_ms=best.mean,
        variance=best.variance,
        hull=hull,
        vertices=vertices,
        after_ms=best.after_ms,
        probability=best.probability,
        coin=best.coin,
        races=race,
        pool=copies,
        ages=ages,
        single_r="single_r" in policies,
        correlation=correlation,
    )


def _check(calls: Floats, copies: Pool, policies: Collection[str], correlation: float) -> None:
    if not len(copies) or np.isnan(calls).all():
        raise InputError("a curve needs at least one call")
    for values in (calls, copies.values):
        if np.nanmin(values) < 0 or np.isinf(values).any():
            raise InputError("latencies must be finite numbers >= 0")
    unknown = [name for name in policies if name not in POLICIES]
    if unknown or not policies:
        raise InputError(f"must be some of {', '.join(POLICIES)}, not {unknown}", where="policies")
    if not 0 <= correlation < 1:
        raise InputError(f"must be from 0 to below 1, not {correlation}", where="correlation")


def _with_coin(race: Races, copies: Pool, fractions: Floats, coin: float) -> _Points:
    """What reissuing these shares does with one coin for all: ages by the share of calls that pass them."""
    outs = copies.time_outs(np.minimum(1.0, fractions / coin))
    mean, square = np.empty(len(fractions)), np.empty(len(fractions))
    for thinned in np.unique(outs.probability).tolist():
        mask = outs.probability == thinned
        mean[mask], square[mask] = race.moments(outs.after_ms[mask], thinned * coin)
    return _Points(
        outs.fraction * coin,
        outs.after_ms,
        np.where(np.isfinite(outs.after_ms), outs.probability * coin, 1.0),
        np.where(np.isfinite(outs.after_ms), coin, 1.0),
        mean,
        square,
    )


def _distinct(points: _Points) -> _Points:
    return points.taken(np.unique(points.fraction, return_index=True)[1])


def _single_points(single: _Points, policies: Collection[str]) -> _Points:
    """Single calls: SingleR at any age of the grid is a mixture of that age's `single` and of no copy."""
    coin = _coins(single.fraction, policies)
    variance = _variances(single, coin)
    own = np.arange(len(single.fraction))
    chosen = np.argmin(variance, axis=1)
    if "single" in policies:
        kept = single.variance <= (1 + WORTH) * variance[own, chosen]
        chosen = np.where(kept, own, chosen)
    share = coin[own, chosen]
    return _Points(
        single.fraction,
        np.where(single.fraction > 0, single.after_ms[chosen], np.inf),
        np.where(single.fraction > 0, single.probability[chosen] * share, 1.0),
        np.where(single.fraction > 0, share, 1.0),
        _mixed(single.mean, share, chosen),
        _mixed(single.square, share, chosen),
    )


def _coins(fraction: Floats, policies: Collection[str]) -> Floats:
    """(k, k): coin that reissues the share of the row at the age of the column; NaN where none does."""
    with np.errstate(divide="ignore", invalid="ignore"):
        coin = fraction[:, None] / fraction[None, :]
    row, column = np.indices(coin.shape)
    allowed = row == 0
    if "single" in policies:
        allowed |= row == column
    if "single_r" in policies:
        allowed |= row <= column
    return np.where(allowed & (column > 0), coin, np.where(column == row, 1.0, np.nan))


def _variances(single: _Points, coin: Floats) -> Floats:
    mean = single.mean[0] + coin * (single.mean[None, :] - single.mean[0])
    square = single.square[0] + coin * (single.square[None, :] - single.square[0])
    variance = np.maximum(0.0, square - mean * mean)
    return np.where(np.isnan(variance), np.inf, variance)


def _mixed(values: Floats, share: Floats, chosen: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Floats:
    return np.asarray(values[0] + share * (values[chosen] - values[0]))


def _fan_out_points(race: Races, copies: Pool, grid: Floats, policies: Collection[str]) -> _Points:
    """Fan-outs: a few coins, each with a closed form of its own, and the best at each share."""
    coins = [1.0] if "single" in policies else []
    coins += COINS if "single_r" in policies else ()
    best = _distinct(_with_coin(race, copies, grid, coins[0] if coins else 1.0))
    for coin in coins[1:]:
        fits = best.fraction <= coin
        tried = _with_coin(race, copies, best.fraction[fits], coin)
        better = tried.variance < (1 - WORTH) * best.variance[fits]
        for name in ("after_ms", "probability", "coin", "mean", "square", "fraction"):
            getattr(best, name)[np.flatnonzero(fits)[better]] = getattr(tried, name)[better]
    return _distinct(best)
