"""Variance-response curve of a stage: variance of its latency by the share of its calls that are reissued.

At every share the curve holds the policy of least variance among `single` (one copy at a time-out; Kwiken
section 5.2.1) and SingleR (an earlier age, with a coin; Kaler, He and Elnikety, SPAA 2017), which at age
zero is the source's `immediate`. For single calls the coin mixes two distributions, with and without a copy,
so mean and mean square are linear in its probability. The moments of `single` at each age of the grid
therefore give those of every SingleR.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile, complete_calls
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.copies import Races, Useless, races
from kwiken.tail.curves.copy_correlation import MAX_USEFUL_CORRELATION, known_correlation, useless_bands

_FINE = (0.0, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1)
GRID: tuple[float, ...] = (*_FINE, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
POLICIES = ("single", "single_r")
COINS = (0.6, 0.3, 0.1)  # probabilities of SingleR tried at fan-outs, where each needs moments of its own
MIN_VARIANCE_GAIN = 1e-3  # SingleR replaces `single` where it lowers the variance by more than this share


@dataclass(frozen=True)
class _Points:
    """Policies and their moments; (k,) arrays, by ascending fraction."""

    fraction: Floats
    after_ms: Floats
    coin: Floats
    mean: Floats
    square: Floats

    @property
    def variance(self) -> Floats:
        return np.maximum(0.0, self.square - self.mean * self.mean)

    def select(self, where: Bools | np.ndarray[tuple[int], np.dtype[np.int64]]) -> _Points:
        return _Points(
            self.fraction[where], self.after_ms[where], self.coin[where], self.mean[where], self.square[where]
        )


@dataclass(frozen=True)
class Curve:
    """Variance of a stage's latency against the share of its calls that are reissued (Kwiken section 5.2.1).

    Attributes:
        fraction: (k,) share of the stage's calls that get a copy, ascending from 0.
        mean_ms: (k,) mean latency of the stage at that share, milliseconds, exact for the samples.
        variance: (k,) variance of its latency at that share, ms², exact for the samples.
        hull: (k,) lower convex, non-increasing hull of `variance`, ms².
        vertices: (k,) whether the point is a vertex of the hull.
        after_ms: (k,) age of a call at which its copy is sent, milliseconds; infinite at fraction 0.
        coin: (k,) share of the calls of that age that get a copy: 1 for `single`, less for SingleR.
        races: moments of calls racing their copies, for exact values between the points.
        ages: moments of `single` at each age, for stages of single calls; SingleR is computed from them. None
            for fan-outs.
        correlation: correlation of a copy's normal score with its call's, 0 or more and below 1.
        useless: probability that a copy is of no use, by the latency of its call.
    """

    fraction: Floats
    mean_ms: Floats
    variance: Floats
    hull: Floats
    vertices: Bools
    after_ms: Floats
    coin: Floats
    races: Races
    distribution: EmpiricalDistribution
    ages: _Points | None = None
    single_r: bool = False
    correlation: float = 0.0
    useless: Useless = ()

    def hull_at(self, fraction: float) -> float:
        """Value of the hull, ms², interpolated between its points.

        Args:
            fraction: share of the calls, 0 to 1.
        """
        return float(np.interp(fraction, self.fraction, self.hull))

    def coin_at(self, fraction: float) -> float:
        """Probability of the best policy at a share of the calls: 1 for `single`, less for SingleR.

        Args:
            fraction: share of the calls, 0 to 1.
        """
        own = _with_coin(self.races, self.distribution, np.array([min(1.0, fraction)]), 1.0)
        coins = self._coins_to_try(fraction)
        if not len(coins) or not fraction > 0:
            return 1.0
        variance = self._variance_with(fraction, coins)
        best = int(np.argmin(variance))
        return float(coins[best]) if variance[best] < (1 - MIN_VARIANCE_GAIN) * own.variance[0] else 1.0

    def _coins_to_try(self, fraction: float) -> Floats:
        """Probabilities of SingleR to try at a share of the calls.

        There are three cases:
        1. SingleR is not among the policies: none.
        2. Single calls: the probability at every age of the grid.
        3. Fan-outs: those of the neighbouring points and of the next vertex of the hull.
        """
        if not self.single_r:
            return np.empty(0)
        if self.ages is not None:
            return np.asarray(fraction / self.ages.fraction[self.ages.fraction > fraction])
        at = int(np.searchsorted(self.fraction, fraction))
        corner = np.flatnonzero(self.vertices & (self.fraction > fraction))[:1]
        near = np.unique(np.concatenate((np.arange(max(1, at - 1), min(at + 1, len(self.coin))), corner)))
        coins = fraction * self.coin[near] / self.fraction[near]
        return np.unique(coins[coins < 1])

    def _variance_with(self, fraction: float, coins: Floats) -> Floats:
        if self.ages is None:
            share = np.array([fraction])
            tried = [_with_coin(self.races, self.distribution, share, coin) for coin in coins.tolist()]
            return np.array([points.variance[0] for points in tried])
        later = self.ages.select(self.ages.fraction > fraction)
        mean = self.ages.mean[0] + coins * (later.mean - self.ages.mean[0])
        square = self.ages.square[0] + coins * (later.square - self.ages.square[0])
        return np.asarray(square - mean * mean)

    def policy(self, fraction: float, *, coin: float | None = None) -> Reissue | None:
        """Policy that reissues a share of the calls; None where that is less than one call of the sample.

        Args:
            fraction: share of the calls, 0 to 1.
            coin: share of the late calls that get a copy, at least `fraction`; None for that of the best
                policy.
        """
        if fraction * len(self.distribution) < 0.5:  # noqa: PLR2004 - rounds to no call
            return None
        chance = self.coin_at(fraction) if coin is None else min(1.0, max(coin, fraction))
        chosen = self.distribution.time_outs(np.array([min(1.0, fraction / chance)]))
        if not np.isfinite(chosen.after_ms[0]):
            return None
        return Reissue(
            after_ms=float(chosen.after_ms[0]),
            probability=chance,
            fraction=float(chosen.fraction[0]) * chance,
        )

    def moments(self, policy: Reissue | None) -> tuple[float, float]:
        """Mean, ms, and variance, ms², of the stage's latency under a policy, exact for the samples.

        Args:
            policy: policy of one copy a call; None for no copies.
        """
        if policy is None:
            return float(self.mean_ms[0]), float(self.variance[0])
        mean, square = self.races.moments(np.array([policy.after_ms]), policy.probability)
        return float(mean[0]), float(max(0.0, square[0] - mean[0] ** 2))


def reissue_curve(
    calls_ms: Floats,
    distribution: EmpiricalDistribution | None = None,
    *,
    grid: tuple[float, ...] = GRID,
    policies: Collection[str] = POLICIES,
    correlation: float = 0.0,
    useless: Useless = (),
) -> Curve:
    """Variance-response curve of the best policy of one copy at each share of calls.

    After Kwiken section 5.2.1; SingleR: Kaler, He and Elnikety 2017.

    Args:
        calls_ms: (n,) or (n, width) latencies of the calls, milliseconds; NaN for no call. The latency of the
            stage is that of its slowest call, and each call has its own copy.
        distribution: latency distribution of a copy; None for that of the calls.
        grid: shares of the calls to reissue, ascending from 0 to at most 1.
        policies: names from `POLICIES` to choose from.
        correlation: correlation of a copy's normal score with its call's, 0 or more and below 1 (see
            `kwiken.tail.curves.copies`).
        useless: probability that a copy is of no use, by the latency of its call.

    Returns:
        A curve with at most as many points as the grid; shares that the samples cannot tell apart become one
        point. Independent copies need no sampling: O(n log n) a point.

    Raises:
        InputError: for latencies that are negative or infinite, or none at all; for an unknown policy, or a
            correlation outside [0, 1).
    """
    matrix = np.asarray(calls_ms, dtype=float)
    copies = EmpiricalDistribution.of(matrix) if distribution is None else distribution
    _check(matrix, copies, policies, correlation)
    race = races(matrix, copies, correlation, useless)
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
        coin=best.coin,
        races=race,
        distribution=copies,
        ages=ages,
        single_r="single_r" in policies,
        correlation=correlation,
        useless=useless,
    )


def _check(
    calls: Floats, copies: EmpiricalDistribution, policies: Collection[str], correlation: float
) -> None:
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


def _with_coin(race: Races, copies: EmpiricalDistribution, fractions: Floats, coin: float) -> _Points:
    """Policies that reissue these shares, all with one coin, and their moments."""
    outs = copies.time_outs(np.minimum(1.0, fractions / coin))
    mean, square = race.moments(outs.after_ms, coin)
    return _Points(
        outs.fraction * coin, outs.after_ms, np.where(np.isfinite(outs.after_ms), coin, 1.0), mean, square
    )


def _distinct(points: _Points) -> _Points:
    return points.select(np.unique(points.fraction, return_index=True)[1])


def _single_points(single: _Points, policies: Collection[str]) -> _Points:
    """Best policies for single calls: SingleR at an age is a mixture of `single` at that age and no copy."""
    coin = _coins(single.fraction, policies)
    variance = _variances(single, coin)
    own = np.arange(len(single.fraction))
    chosen = np.argmin(variance, axis=1)
    if "single" in policies:
        kept = single.variance <= (1 + MIN_VARIANCE_GAIN) * variance[own, chosen]
        chosen = np.where(kept, own, chosen)
    share = coin[own, chosen]
    return _Points(
        single.fraction,
        np.where(single.fraction > 0, single.after_ms[chosen], np.inf),
        np.where(single.fraction > 0, share, 1.0),
        _mixed(single.mean, share, chosen),
        _mixed(single.square, share, chosen),
    )


def _coins(fraction: Floats, policies: Collection[str]) -> Floats:
    """(k, k): probability that reissues the row's share at the column's age; NaN where none does."""
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


def _fan_out_points(
    race: Races, copies: EmpiricalDistribution, grid: Floats, policies: Collection[str]
) -> _Points:
    """Best policies for fan-outs: a few coins are tried at each share, each with moments of its own."""
    coins = [1.0] if "single" in policies else []
    coins += COINS if "single_r" in policies else ()
    best = _distinct(_with_coin(race, copies, grid, coins[0] if coins else 1.0))
    for coin in coins[1:]:
        fits = best.fraction <= coin
        tried = _with_coin(race, copies, best.fraction[fits], coin)
        better = tried.variance < (1 - MIN_VARIANCE_GAIN) * best.variance[fits]
        for name in ("after_ms", "coin", "mean", "square", "fraction"):
            getattr(best, name)[np.flatnonzero(fits)[better]] = getattr(tried, name)[better]
    return _distinct(best)


def lower_hull(x: Floats, y: Floats) -> tuple[Floats, Bools]:
    """Greatest convex, non-increasing function below the points, evaluated at the points.

    After Kwiken section 5.2.2. A raw curve is flat where many calls end at the same latency, and a greedy
    search would stop there; the hull bridges the flat part.

    Args:
        x: (k,) strictly ascending values: shares of calls, or any unit.
        y: (k,) finite values: variances, or any unit.

    Returns:
        (k,) values of the hull at `x`, in the unit of `y`, and (k,) whether the point is a vertex.
    """
    xs, ys = x.tolist(), y.tolist()
    corners: list[int] = []
    for i in range(len(xs)):
        while len(corners) > 1 and _above_chord(xs, ys, corners[-2], corners[-1], i):
            corners.pop()
        corners.append(i)
    lowest = min(range(len(corners)), key=lambda k: ys[corners[k]])
    kept = corners[: lowest + 1]  # beyond its lowest point the hull stays flat
    vertices = np.zeros(len(xs), dtype=np.bool_)
    vertices[kept] = True
    hull = np.interp(x, x[kept], y[kept])
    hull[kept] = y[kept]
    return np.minimum(hull, y), vertices


def _above_chord(x: list[float], y: list[float], left: int, middle: int, right: int) -> bool:
    rise = (y[right] - y[left]) * (x[middle] - x[left])
    return (y[middle] - y[left]) * (x[right] - x[left]) >= rise


MIN_CALLS_FOR_CURVE = 10  # fewer calls show no tail that copies could cut


def stage_curves(
    profile: Profile, *, seed: int = 0, copy_correlation: float | None = None
) -> dict[str, Curve]:
    """Variance-response curve of every stage whose calls may be copied, without gateway lag.

    Stages of too few calls have none, and those whose copies could only go to the one replica of their calls.

    Args:
        seed: seed of the draws that replace cancelled calls (`complete_calls`), 0 or more.
        copy_correlation: correlation of a copy's normal score with its call's at every stage, 0 or more and
            below 1; None to estimate it per stage. A stage with at least `MAX_USEFUL_CORRELATION` has no
            curve, since its copies would be about as slow as their calls.
    """
    curves = {}
    for i, stage in enumerate(profile.stages):
        few = (~np.isnan(stage.calls_ms)).sum() < MIN_CALLS_FOR_CURVE
        if not stage.reissuable or stage.lone or few:
            continue
        raced = stage.without_lag()
        distribution = raced.distribution
        rho = known_correlation(raced, distribution, copy_correlation)
        if rho < MAX_USEFUL_CORRELATION:
            calls = complete_calls(raced, distribution, np.random.default_rng([seed, i]))
            useless = useless_bands(raced, copy_correlation)
            curves[stage.name] = reissue_curve(calls, distribution, correlation=rho, useless=useless)
    return curves
