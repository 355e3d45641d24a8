"""Confidence of a curve: jackknife intervals over blocks of time, and a hull shrunk by them.

The jackknife takes the variance under a curve's policies with each block of time left out. Single calls with
independent copies take one pass for all blocks, by the closed form of `kwiken.tail.curves.fan_out`. Fan-outs
and correlated copies take the moments of each block in turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from kwiken.base.arrays import Floats, Ints
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile, StageProfile, complete_calls
from kwiken.tail.curves.copies import races
from kwiken.tail.curves.curve import Curve
from kwiken.tail.curves.fan_out import CopyTable, RankedCopies

JACKKNIFE_BLOCKS = 10
INTERVAL_LEVEL = 0.9
MIN_VARIANCE_MS2 = 1e-12  # a stage with less does not vary
MAX_BOUND_FACTOR = 100.0  # between a bound and the curve: a wider interval says nothing more
POINT_STEP = 3  # errors are computed at every third point of a curve and interpolated between
SHRINKAGE_ERRORS = 1.25  # standard errors that a gain is lowered by: a gain from one block alone becomes 0
UNCERTAIN_GAIN_SHARE = 0.3  # share of a gain that counts though chance may explain it: a stall may come again


class _Groups(NamedTuple):
    """What each group contributes under each policy.

    Attributes:
        as_calls: (groups, 2, points) mean, ms, and mean square, ms², of the group's calls.
        as_copies: (groups, 2, points) the same of some calls of all groups, whose copies are drawn from the
            group's calls.
        late: (groups, points) number of the group's calls that get a copy.
        calls: (groups, 1) number of the group's calls.
    """

    as_calls: Floats
    as_copies: Floats
    late: Floats
    calls: Floats


def variance_without_each(calls: Floats, curve: Curve, points: Ints, groups: list[Ints]) -> Floats:
    """(groups, points): variance, ms², at the curve's shares with each group left out in turn.

    To first order a group contributes in three ways:
    1. Its own calls.
    2. Copies drawn from its calls for calls of the other groups.
    3. Its share of the budget: without it the time-out would be another.

    Args:
        calls: (n, width) latencies, milliseconds; NaN for no call.
        points: (points,) indices of the curve's policies; the first sends no copies.
        groups: indices of the requests of each group, 2 or more groups.
    """
    single = calls.shape[1] == 1
    rows = _sorted_rows(calls, groups) if single and curve.correlation == 0 and not curve.useless else None
    if rows is None or np.isnan(rows[:, 0]).any():
        found = _in_turn(calls, curve, points, groups)
    else:
        found = _at_once(rows, calls[:: len(groups), 0], curve, points, groups)
    weight = np.array([len(group) for group in groups], dtype=float)[:, None, None]
    moments = _leaving_out(found.as_calls, weight)
    moments += _leaving_out(found.as_copies, weight) - found.as_copies.mean(axis=0)
    variance = moments[:, 1] - moments[:, 0] ** 2
    spent = _others(found.late) / np.maximum(1.0, _others(found.calls))
    usual = found.late.sum(axis=0) / np.maximum(1.0, found.calls.sum(axis=0))
    slope = np.gradient(curve.hull, curve.fraction)[points] if len(curve.fraction) > 1 else np.zeros(1)
    return np.asarray(variance + slope * (usual - spent))


def _others(number: Floats) -> Floats:
    """(groups, ...): sum over all groups but one, for each group."""
    return np.asarray(number.sum(axis=0) - number)


def _leaving_out(values: Floats, weight: Floats) -> Floats:
    """(groups, ...): weighted mean over all groups but one, for each group left out."""
    return np.asarray(_others(weight * values) / _others(weight))


def _sorted_rows(calls: Floats, groups: list[Ints]) -> Floats:
    """(groups, most): single calls of each group, ascending, milliseconds; NaN after the last."""
    rows = np.full((len(groups), max(map(len, groups))), np.nan)
    for row, group in zip(rows, groups, strict=True):
        row[: len(group)] = calls[group, 0]
    rows.sort(axis=1)
    return rows


def _at_once(rows: Floats, thin: Floats, curve: Curve, points: Ints, groups: list[Ints]) -> _Groups:
    """Contributions of groups of single calls with independent copies.

    Args:
        rows: (groups, most) calls of each group, ascending, milliseconds; NaN after the last.
        thin: (m,) calls of all groups for the copies to race, milliseconds; NaN for no call.
    """
    count = (~np.isnan(rows)).sum(axis=1, keepdims=True)
    requests, raced = np.array([len(group) for group in groups]), max(1, len(thin))
    thin = np.sort(thin)[: int((~np.isnan(thin)).sum())]
    own = RankedCopies.of(curve.distribution, 1)
    shares = np.minimum(1.0, np.arange(rows.shape[1] + 1) / count)
    each = CopyTable.of(np.nan_to_num(rows), np.ones(shares.shape), shares)
    shape = (len(rows), 2, len(points))
    as_calls, as_copies = np.empty(shape), np.empty(shape)
    for power in (1, 2):
        as_calls[:, power - 1] = (np.nansum(rows**power, axis=1) / requests)[:, None]
        as_copies[:, power - 1] = (thin**power).sum() / raced
    late = np.zeros((len(rows), len(points)))
    for at, age in enumerate(curve.after_ms[points].tolist()):
        chance = float(curve.coin[points[at]])
        group, place = np.nonzero(rows > age)
        past = rows[group, place] - age
        for power, saved in enumerate(_saved(own.table, past, age, own.values.searchsorted(past))):
            as_calls[:, power, at] -= chance * np.bincount(group, saved, minlength=len(rows)) / requests
        past = thin[thin.searchsorted(age, side="right") :] - age
        below = np.stack([row.searchsorted(past) for row in rows])
        for power, saved in enumerate(_saved(each, past, age, below)):
            as_copies[:, power, at] -= chance * saved.sum(axis=1) / raced
        late[:, at] = chance * np.bincount(group, minlength=len(rows))
    return _Groups(as_calls, as_copies, late, count.astype(float))


def _saved(table: CopyTable, past_ms: Floats, age_ms: float, below: Ints) -> tuple[Floats, Floats]:
    """What copies sent at an age save of late calls' latency, ms, and of its square, ms², in the mean.

    Args:
        table: copies of the calls, or a row of copies for each row of `below`.
        past_ms: (m,) what the calls take beyond the age, milliseconds.
        below: (..., m) number of copies that take less than that.
    """
    low, low2, late = (
        np.take_along_axis(sums, below, axis=-1) for sums in (table.low, table.low2, table.late)
    )
    once = past_ms - (low + late * past_ms)
    return once, past_ms * past_ms - (low2 + late * past_ms * past_ms) + 2 * age_ms * once


def _in_turn(calls: Floats, curve: Curve, points: Ints, groups: list[Ints]) -> _Groups:
    """Contributions of groups of any calls, by the moments of each group's races."""
    thin = calls[:: len(groups)]
    as_calls, as_copies, late, number = [], [], [], []
    for group in groups:
        part = calls[group]
        as_calls.append(_moments(part, curve, points, curve.distribution))
        lent = EmpiricalDistribution.of(part)
        as_copies.append(_moments(thin, curve, points, lent if len(lent) else curve.distribution))
        past = len(lent) - np.searchsorted(lent.values, curve.after_ms[points], side="right")
        late.append(past * curve.coin[points])
        number.append([float(len(lent))])
    return _Groups(np.array(as_calls), np.array(as_copies), np.array(late), np.array(number))


def _moments(calls: Floats, curve: Curve, points: Ints, copies: EmpiricalDistribution) -> Floats:
    """(2, points): mean, ms, and mean square, ms², of some requests' calls under the curve's policies."""
    race = races(calls, copies, curve.correlation, curve.useless)
    ages, chance = curve.after_ms[points], curve.coin[points]
    if calls.shape[1] == 1:  # single calls: moments are linear in the coin's probability
        sure = np.array(race.moments(ages, 1.0))
        return np.asarray(sure[:, :1] + chance * (sure - sure[:, :1]))
    found = np.empty((2, len(points)))
    for coin in np.unique(chance).tolist():
        found[:, chance == coin] = race.moments(ages[chance == coin], coin)
    return found


@dataclass(frozen=True)
class CurveBounds:
    """Pointwise interval around the variance of a curve, and the standard error of its gain.

    Attributes:
        fraction: (k,) shares of calls, those of the curve.
        low: (k,) lower bound of the variance, ms².
        high: (k,) upper bound of the variance, ms².
        gain: (k,) fall of the curve's variance from no copies, ms².
        gain_error: (k,) standard error of the gain, ms².
        level: probability that the interval at each single point is meant to cover, 0 to 1.
    """

    fraction: Floats
    low: Floats
    high: Floats
    gain: Floats
    gain_error: Floats
    level: float

    def gain_between(self, fraction: float) -> tuple[float, float]:
        """Lower and upper bound of the gain from reissuing a share of the calls, ms², each 0 or more.

        The upper bound is as many standard errors away on a logarithmic scale: rare slowness is in few
        samples, so an observed gain is more often too small than too large.

        Args:
            fraction: share of the calls, 0 to 1.
        """
        gain = float(np.interp(fraction, self.fraction, self.gain))
        away = _deviations(self.level) * float(np.interp(fraction, self.fraction, self.gain_error))
        if gain <= 0:
            return 0.0, max(0.0, gain + away)
        return max(0.0, gain - away), gain * float(np.exp(min(np.log(MAX_BOUND_FACTOR), away / gain)))

    @property
    def certainty(self) -> float:
        """Share of the gain left `SHRINKAGE_ERRORS` standard errors below it; 0 where chance explains it.

        Measured at the first point with half of the largest gain, where the stage's tail shows or does not.
        """
        most = float(self.gain.max(initial=0.0))
        if most <= MIN_VARIANCE_MS2:
            return 0.0
        half = int(np.argmax(self.gain >= most / 2))
        return max(0.0, 1.0 - SHRINKAGE_ERRORS * float(self.gain_error[half] / self.gain[half]))

    def shrunk(self, hull: Floats) -> ShrunkCurve:
        """Hull with the certain part of its gain, and `UNCERTAIN_GAIN_SHARE` of the rest.

        The shape is kept: past its knee a share insures against a tail that is larger than observed. A budget
        apportioned by such hulls goes first to gains that the observed requests prove; with more requests
        the hulls approach those of the curves. An uncertain gain still counts in part: otherwise spare budget
        would go to certain gains however small, and none to a stage that stalls rarely.

        Args:
            hull: (k,) hull of the curve, ms².
        """
        kept = UNCERTAIN_GAIN_SHARE + (1 - UNCERTAIN_GAIN_SHARE) * self.certainty
        return ShrunkCurve(self.fraction, hull[0] - kept * (hull[0] - hull))


@dataclass(frozen=True)
class ShrunkCurve:
    """Hull to apportion by, shrunk by its confidence (`CurveBounds.shrunk`).

    Attributes:
        fraction: (k,) shares of calls, ascending from 0.
        hull: (k,) shrunk hull of the variance, ms².
    """

    fraction: Floats
    hull: Floats


def curve_bounds(
    profile: Profile, curves: Mapping[str, Curve], *, level: float = INTERVAL_LEVEL, seed: int = 0
) -> dict[str, CurveBounds]:
    """Confidence intervals for the curves of a profile's stages.

    Args:
        profile: profile that the curves were computed from.
        curves: curve of each stage, by its name.
        level: probability that the interval at each single point covers, above 0 and below 1.
        seed: seed of the draws that replace cancelled calls, as `stage_curves` takes it.

    Returns:
        By stage: intervals from the delete-a-group jackknife of the log of the variance, and of the gain. The
        groups are blocks of time, since requests close in time are correlated: few requests, or slowness in
        one burst, widen the intervals. The curve's policies are evaluated on each group.
    """
    order = np.argsort(profile.started_s, kind="stable")
    groups = [group for group in np.array_split(order, JACKKNIFE_BLOCKS) if len(group)]
    return {
        stage.name: _bounds(stage, curves[stage.name], groups, level, np.random.default_rng([seed, i]))
        for i, stage in enumerate(profile.stages)
        if stage.name in curves
    }


def _bounds(
    stage: StageProfile, curve: Curve, groups: list[Ints], level: float, rng: np.random.Generator
) -> CurveBounds:
    k = len(curve.fraction)
    gain = curve.variance[0] - curve.variance
    if len(groups) < 2 or k < 2:  # noqa: PLR2004 - one group has no spread, one point no gain
        return _interval(curve, gain, np.full(k, np.log(MAX_BOUND_FACTOR)), np.full(k, np.inf), level)
    calls = complete_calls(stage.without_lag(), curve.distribution, rng)
    points = np.unique(np.r_[np.arange(0, k, POINT_STEP), k - 1])
    variance = np.maximum(variance_without_each(calls, curve, points, groups), MIN_VARIANCE_MS2)
    scale = len(groups) - 1
    errors = np.sqrt(scale * np.log(variance).var(axis=0))
    gain_errors = np.sqrt(scale * (variance[:, :1] - variance).var(axis=0))
    at, places = curve.fraction, curve.fraction[points]
    return _interval(
        curve,
        gain,
        _deviations(level) * np.interp(at, places, errors),
        gain * np.interp(at, places[1:], gain_errors[1:] / np.maximum(gain[points[1:]], MIN_VARIANCE_MS2)),
        level,
    )


def _interval(curve: Curve, gain: Floats, spread: Floats, gain_error: Floats, level: float) -> CurveBounds:
    factor = np.exp(np.minimum(np.log(MAX_BOUND_FACTOR), spread))
    return CurveBounds(
        curve.fraction, curve.variance / factor, curve.variance * factor, gain, gain_error, level
    )


def _deviations(level: float) -> float:
    """Half-width of an interval of that level, in standard errors (Student's t)."""
    return float(stdtrit(JACKKNIFE_BLOCKS - 1, (1 + level) / 2))
