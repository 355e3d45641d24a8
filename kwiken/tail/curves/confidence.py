"""Confidence of a curve: jackknife intervals over blocks of time, and a hull shrunk by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from kwiken.base.arrays import Floats, Ints
from kwiken.model.profile import Profile, StageProfile, complete_calls
from kwiken.tail.curves.curve import Curve
from kwiken.tail.curves.left_out import variance_without_each

JACKKNIFE_BLOCKS = 10
INTERVAL_LEVEL = 0.9
MIN_VARIANCE_MS2 = 1e-12  # a stage with less does not vary
MAX_BOUND_FACTOR = 100.0  # between a bound and the curve: a wider interval says nothing more
POINT_STEP = 3  # errors are computed at every third point of a curve and interpolated between
SHRINKAGE_ERRORS = 1.25  # standard errors that a gain is lowered by: a gain from one block alone becomes 0
UNCERTAIN_GAIN_SHARE = 0.3  # share of a gain that counts though chance may explain it: a stall may come again


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
