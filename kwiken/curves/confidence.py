"""How sure a curve is: intervals from leaving out one stretch of time after another, and a timid hull."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from kwiken.arrays import Floats, Ints
from kwiken.curves.copies import races
from kwiken.curves.curve import Curve
from kwiken.profile import Pool, Profile, StageProfile, complete_calls

BLOCKS = 10
LEVEL = 0.9
LEAST = 1e-12  # ms²: a stage that does not vary
WIDEST = 100.0  # factor between a bound and the curve beyond which nothing is known anyway
THINNED = 3  # of a curve's points each how-many-th is looked at: errors change slowly between them
TIMID = 1.25  # standard errors that a gain is lowered by: nothing is left of what one group alone brought
TRUST = 0.3  # share of a gain that counts though chance may explain it: slowness seen once may come again


@dataclass(frozen=True)
class CurveBounds:
    """An interval around a curve's variance, and how sure its gain is.

    Attributes:
        fraction: (k,) the curve's own shares of calls.
        low: (k,) ms².
        high: (k,) ms².
        gain: (k,) by how much the curve's variance falls, ms².
        gain_error: (k,) standard error of that, ms².
        level: probability that the intervals are meant to cover, each point on its own.
    """

    fraction: Floats
    low: Floats
    high: Floats
    gain: Floats
    gain_error: Floats
    level: float

    def gain_between(self, fraction: float) -> tuple[float, float]:
        """Low and high of what reissuing that share of the calls gains, ms²; from 0.

        The high end is as many errors away on a logarithm's scale: slowness that few requests have shows in
        few samples, so what was seen is more often too small than too large.
        """
        gain = float(np.interp(fraction, self.fraction, self.gain))
        away = _deviations(self.level) * float(np.interp(fraction, self.fraction, self.gain_error))
        if gain <= 0:
            return 0.0, max(0.0, gain + away)
        return max(0.0, gain - away), gain * float(np.exp(min(np.log(WIDEST), away / gain)))

    @property
    def certainty(self) -> float:
        """How much of the gain is left `TIMID` standard errors below it, a share: 0 where chance explains it.

        Where half of what can be gained is gained: the tail that a stage has, or has not.
        """
        most = float(self.gain.max(initial=0.0))
        if most <= LEAST:
            return 0.0
        half = int(np.argmax(self.gain >= most / 2))
        return max(0.0, 1.0 - TIMID * float(self.gain_error[half] / self.gain[half]))

    def timid(self, hull: Floats) -> TimidCurve:
        """The hull with so much of its gain as is certain, and `TRUST` of the rest.

        Its shape stays: past its knee a share is an insurance against a tail that is larger than it looked.
        Budget apportioned by such hulls goes first to gains that the requests seen prove; the more there
        are, the closer they come to the curves' own. A gain that may be chance must not count for nothing:
        budget left over would then go to sure gains however small, and none to a stage that stalls rarely.

        Args:
            hull: (k,) of the curve, ms².
        """
        kept = TRUST + (1 - TRUST) * self.certainty
        return TimidCurve(self.fraction, hull[0] - kept * (hull[0] - hull))


@dataclass(frozen=True)
class TimidCurve:
    """What apportioning needs of a curve; see `CurveBounds.timid`."""

    fraction: Floats
    hull: Floats


def curve_bounds(
    profile: Profile, curves: Mapping[str, Curve], *, level: float = LEVEL, seed: int = 0
) -> dict[str, CurveBounds]:
    """Intervals for the curves of a profile's stages.

    Args:
        profile: what they were learned from.
        curves: by stage.
        level: probability to cover, each point on its own.
        seed: of the draws that stand for cancelled calls, as `stage_curves` takes it.

    Returns:
        By stage: intervals from the delete-a-group jackknife of the log of the variance, and of the gain. The
        groups are stretches of time, since neighbours in time share their fate: few requests, or slowness
        that came in one burst, widen them. The curve's own policies are judged on each group, so it costs
        about as much as one more curve a stage.
    """
    order = np.argsort(profile.started_s, kind="stable")
    groups = [group for group in np.array_split(order, BLOCKS) if len(group)]
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
    if len(groups) < 2 or k < 2:  # noqa: PLR2004 - one tells no spread, nor anything of gains
        return _interval(curve, gain, np.full(k, np.log(WIDEST)), np.full(k, np.inf), level)
    calls = complete_calls(stage, curve.pool, rng)
    points = np.unique(np.r_[np.arange(0, k, THINNED), k - 1])
    variance = np.maximum(_without_each(calls, curve, points, groups), LEAST)
    scale = len(groups) - 1
    errors = np.sqrt(scale * np.log(variance).var(axis=0))
    gain_errors = np.sqrt(scale * (variance[:, :1] - variance).var(axis=0))
    at, places = curve.fraction, curve.fraction[points]
    return _interval(
        curve,
        gain,
        _deviations(level) * np.interp(at, places, errors),
        gain * np.interp(at, places[1:], gain_errors[1:] / np.maximum(gain[points[1:]], LEAST)),
        level,
    )


def _interval(curve: Curve, gain: Floats, spread: Floats, gain_error: Floats, level: float) -> CurveBounds:
    factor = np.exp(np.minimum(np.log(WIDEST), spread))
    return CurveBounds(
        curve.fraction, curve.variance / factor, curve.variance * factor, gain, gain_error, level
    )


def _deviations(level: float) -> float:
    """How many standard errors an interval of that level reaches to each side."""
    return float(stdtrit(BLOCKS - 1, (1 + level) / 2))


def _without_each(calls: Floats, curve: Curve, points: Ints, groups: list[Ints]) -> Floats:
    """(groups, points): variance at the curve's shares without one group after another.

    To first order a group counts in three ways: by its calls, by the copies that it lends to the others, and
    by how much of the budget it takes, since a time-out learned without it would be another.
    """
    each = len(groups)
    thin = calls[::each]
    as_calls, as_copies, taken = [], [], []
    for rows in groups:
        part = calls[rows]
        as_calls.append(_moments(part, curve, points, curve.pool))
        lent = Pool.of(part)
        as_copies.append(_moments(thin, curve, points, lent if len(lent) else curve.pool))
        taken.append(_late(part, curve, points))
    weight = np.array([len(rows) for rows in groups], dtype=float)[:, None]
    moments = _leaving_out(np.array(as_calls), weight[:, None])
    moments += _leaving_out(np.array(as_copies), weight[:, None]) - np.mean(as_copies, axis=0)
    variance = moments[:, 1] - moments[:, 0] ** 2
    number = np.array(taken)  # (groups, points, 2): late calls, and calls
    left = number.sum(axis=0) - number
    spent = left[:, :, 0] / np.maximum(1.0, left[:, :, 1])
    usual = number[:, :, 0].sum(axis=0) / np.maximum(1.0, number[:, :, 1].sum(axis=0))
    slope = np.gradient(curve.hull, curve.fraction)[points] if len(curve.fraction) > 1 else np.zeros(1)
    return np.asarray(variance + slope * (usual - spent))


def _leaving_out(values: Floats, weight: Floats) -> Floats:
    """(groups, ...): mean of all groups but one, for each."""
    return np.asarray(((weight * values).sum(axis=0) - weight * values) / (weight.sum() - weight))


def _late(calls: Floats, curve: Curve, points: Ints) -> Floats:
    """(points, 2): number of calls that get a copy under the curve's policies, and of all."""
    flat = np.sort(calls[~np.isnan(calls)])
    late = len(flat) - np.searchsorted(flat, curve.after_ms[points], side="right")
    return np.column_stack((late * curve.probability[points], np.full(len(points), float(len(flat)))))


def _moments(calls: Floats, curve: Curve, points: Ints, copies: Pool) -> Floats:
    """(2, points): mean and mean square of some requests under the curve's policies."""
    race = races(calls, copies, curve.correlation)
    ages, chance = curve.after_ms[points], curve.probability[points]
    if calls.shape[1] == 1:  # a coin mixes two laws
        sure = np.array(race.moments(ages, 1.0))
        return np.asarray(sure[:, :1] + chance * (sure - sure[:, :1]))
    found = np.empty((2, len(points)))
    for coin in np.unique(chance).tolist():
        found[:, chance == coin] = race.moments(ages[chance == coin], coin)
    return found
