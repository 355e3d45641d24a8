"""Variance of a stage under a curve's policies with each block of time left out: groups of a jackknife.

Single calls with independent copies take one pass for all groups, by the closed form of
`kwiken.tail.curves.fan_out`. Fan-outs and correlated copies take the moments of each group in turn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.model.profile import EmpiricalDistribution
from kwiken.tail.curves.copies import races
from kwiken.tail.curves.curve import Curve


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
    rows = _sorted_rows(calls, groups) if calls.shape[1] == 1 and curve.correlation == 0 else None
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
    all_calls, each = _Copies.of(curve.distribution), _Copies.of_rows(rows, count)
    shape = (len(rows), 2, len(points))
    as_calls, as_copies = np.empty(shape), np.empty(shape)
    for power in (1, 2):
        as_calls[:, power - 1] = (np.nansum(rows**power, axis=1) / requests)[:, None]
        as_copies[:, power - 1] = (thin**power).sum() / raced
    late = np.zeros((len(rows), len(points)))
    for at, age in enumerate(curve.after_ms[points].tolist()):
        chance = float(curve.probability[points[at]])
        group, place = np.nonzero(rows > age)
        past = rows[group, place] - age
        for power, saved in enumerate(all_calls.saved(past, age, all_calls.values.searchsorted(past))):
            as_calls[:, power, at] -= chance * np.bincount(group, saved, minlength=len(rows)) / requests
        past = thin[thin.searchsorted(age, side="right") :] - age
        below = np.stack([row.searchsorted(past) for row in rows])
        for power, saved in enumerate(each.saved(past, age, below)):
            as_copies[:, power, at] -= chance * saved.sum(axis=1) / raced
        late[:, at] = chance * np.bincount(group, minlength=len(rows))
    return _Groups(as_calls, as_copies, late, count.astype(float))


class _Copies(NamedTuple):
    """Sums over the copies that are faster than a call's time past the time-out, by their number j.

    Attributes:
        values: (..., k) latencies of copies, ascending, milliseconds.
        slower: (..., k + 1) share of the copies that are not among the first j.
        mean: (..., k + 1) sum of the first j, each times its weight, ms.
        square: (..., k + 1) sum of their squares, each times its weight, ms².
    """

    values: Floats
    slower: Floats
    mean: Floats
    square: Floats

    @classmethod
    def of(cls, distribution: EmpiricalDistribution) -> _Copies:
        cdf = np.concatenate(([0.0], distribution.cdf))
        return cls._of(distribution.values, np.diff(cdf), 1.0 - cdf)

    @classmethod
    def of_rows(cls, rows: Floats, count: Ints) -> _Copies:
        """Of the values in each row, ascending and as many as `count`, (rows, 1), says."""
        return cls._of(rows, 1.0 / count, 1.0 - np.arange(rows.shape[1] + 1) / count)

    @classmethod
    def _of(cls, values: Floats, weight: Floats, slower: Floats) -> _Copies:
        mean, square = np.zeros(slower.shape), np.zeros(slower.shape)
        np.cumsum(values * weight, axis=-1, out=mean[..., 1:])
        np.cumsum(values * values * weight, axis=-1, out=square[..., 1:])
        return cls(values, slower, mean, square)

    def saved(self, past_ms: Floats, age_ms: float, below: Ints) -> tuple[Floats, Floats]:
        """What a copy saves of a late call's latency, ms, and of its square, ms², in the mean.

        Args:
            past_ms: (m,) what the calls take beyond the age, ascending or not, milliseconds.
            age_ms: age at which the copies are sent, milliseconds.
            below: (..., m) number of copies faster than that, each.
        """
        mean, square, slower = (
            np.take_along_axis(sums, below, axis=-1) for sums in (self.mean, self.square, self.slower)
        )
        ends, ends_square = mean + slower * past_ms, square + slower * past_ms * past_ms
        return past_ms - ends, past_ms * past_ms - ends_square + 2 * age_ms * (past_ms - ends)


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
        late.append(past * curve.probability[points])
        number.append([float(len(lent))])
    return _Groups(np.array(as_calls), np.array(as_copies), np.array(late), np.array(number))


def _moments(calls: Floats, curve: Curve, points: Ints, copies: EmpiricalDistribution) -> Floats:
    """(2, points): mean, ms, and mean square, ms², of some requests' calls under the curve's policies."""
    race = races(calls, copies, curve.correlation)
    ages, chance = curve.after_ms[points], curve.probability[points]
    if calls.shape[1] == 1:  # single calls: moments are linear in the coin's probability
        sure = np.array(race.moments(ages, 1.0))
        return np.asarray(sure[:, :1] + chance * (sure - sure[:, :1]))
    found = np.empty((2, len(points)))
    for coin in np.unique(chance).tolist():
        found[:, chance == coin] = race.moments(ages[chance == coin], coin)
    return found
