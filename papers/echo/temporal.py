"""Temporal model of one server: its load over time as a sum of named curves, each with its time (ECHO C.1).

Curves are found one by one in what the others leave: a Gaussian hump, an exponential rise or decay, a
power decay, on a constant floor. A curve is kept if it lowers the corrected Akaike criterion of the whole
sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.extras import needs

MAX_CURVES: Final = 12
FLOOR_QUANTILE: Final = 0.05
MEDIAN_OF: Final = 3  # bins
MIN_GAIN: Final = 10.0  # of the criterion, by which a further curve must be better
MIN_RANGE: Final = 0.02  # of the range of the series, below which a curve is no feature
MIN_WIDTH: Final = 1.0  # bins, below which a curve is noise of single bins
_Shape = Callable[[Floats, Floats], Floats]


class CurveFamily(StrEnum):
    """Family of a curve over time.

    Attributes:
        GAUSSIAN: a symmetric hump.
        EXPONENTIAL: a jump that decays.
        RISE: a rise that grows until a drop.
        POWER: a jump that decays by a power of time, as Zipf's law has it.
        CONSTANT: the floor.
    """

    GAUSSIAN = "gaussian"
    EXPONENTIAL = "exponential"
    RISE = "rise"
    POWER = "power"
    CONSTANT = "constant"


@dataclass(frozen=True)
class TimedCurve:
    """One curve of a sum.

    Attributes:
        height: largest value, in the unit of the series.
        at: time of the largest value, in bins from the start.
        width: standard deviation of a Gaussian; time constant of the others, in bins.
    """

    family: CurveFamily
    height: float
    at: float
    width: float

    def values(self, time: Floats) -> Floats:
        """(b,) the curve at some times.

        Args:
            time: (b,) times, in bins from the start.
        """
        return self.height * _SHAPES[self.family](time, np.array([self.at, self.width]))


def _gaussian(time: Floats, where: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * ((time - where[0]) / where[1]) ** 2))


def _decay(time: Floats, where: Floats) -> Floats:
    past = time - where[0]
    return np.asarray(np.where(past >= 0, np.exp(-np.maximum(past, 0.0) / where[1]), 0.0))


def _rise(time: Floats, where: Floats) -> Floats:
    ahead = where[0] - time
    return np.asarray(np.where(ahead >= 0, np.exp(-np.maximum(ahead, 0.0) / where[1]), 0.0))


def _power(time: Floats, where: Floats) -> Floats:
    past = time - where[0]
    return np.asarray(np.where(past >= 0, 1.0 / (1.0 + np.maximum(past, 0.0) / where[1]), 0.0))


_SHAPES: Final[dict[CurveFamily, _Shape]] = {
    CurveFamily.GAUSSIAN: _gaussian,
    CurveFamily.EXPONENTIAL: _decay,
    CurveFamily.RISE: _rise,
    CurveFamily.POWER: _power,
    CurveFamily.CONSTANT: lambda time, _: np.ones_like(time),
}


@dataclass(frozen=True)
class TemporalModel:
    """Load of one server over time as a sum of curves, the floor first."""

    curves: tuple[TimedCurve, ...]

    def values(self, time: Floats) -> Floats:
        """(b,) the sum at some times, 0 or more.

        Args:
            time: (b,) times, in bins from the start.
        """
        total = np.zeros_like(time)
        for curve in self.curves:
            total += curve.values(time)
        return np.maximum(total, 0.0)

    def deviation(self, series: Floats) -> float:
        """Mean absolute deviation from a series, as a share of its mean.

        Args:
            series: (b,) load by time bin.
        """
        gap = np.abs(self.values(np.arange(len(series), dtype=np.float64)) - series)
        return float(gap.mean() / series.mean())


def fit_server(series: Floats) -> TemporalModel:
    """Find the curves of one server's load.

    Args:
        series: (b,) load by time bin, 12 bins or more, each 0 or more.
    """
    time = np.arange(len(series), dtype=np.float64)
    smooth = _smoothed(series)
    curves = [TimedCurve(CurveFamily.CONSTANT, float(np.quantile(smooth, FLOOR_QUANTILE)), 0.0, 1.0)]
    fitted, best = _refined(curves, time, series)
    spread = float(np.ptp(smooth))
    while len(fitted) <= MAX_CURVES:
        found = None
        for curve in _candidates(fitted, time, smooth):
            trial, worth = _refined([*fitted, curve], time, series)
            features = all(each.height > MIN_RANGE * spread and each.width >= MIN_WIDTH for each in trial[1:])
            if features and worth < best - MIN_GAIN:
                found, best = trial, worth
        if found is None:
            break
        fitted = found
    return TemporalModel(tuple(fitted))


def _smoothed(series: Floats) -> Floats:
    padded = np.pad(series, MEDIAN_OF // 2, mode="edge")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, MEDIAN_OF), axis=1))


def _candidates(fitted: Sequence[TimedCurve], time: Floats, smooth: Floats) -> list[TimedCurve]:
    """Curves of each family at the highest point of what the curves so far leave."""
    left = smooth - TemporalModel(tuple(fitted)).values(time)
    at = int(left.argmax())
    height = float(left[at])
    if height <= 0:
        return []
    wide = float(np.count_nonzero(left > height / 2))
    return [
        TimedCurve(family, height, float(at), max(width, 1.0))
        for family in (CurveFamily.GAUSSIAN, CurveFamily.EXPONENTIAL, CurveFamily.RISE, CurveFamily.POWER)
        for width in (wide / 2.355, 3.0)
    ]


def _refined(curves: Sequence[TimedCurve], time: Floats, series: Floats) -> tuple[list[TimedCurve], float]:
    """Curves with heights, times and widths that fit best together, and the criterion of the sum."""
    with needs("papers.echo.temporal", "plan"):
        from scipy.optimize import least_squares

    families = [curve.family for curve in curves]
    scale = max(float(np.ptp(series)), 1e-12)
    start = np.array([v for c in curves for v in (c.height / scale, c.at, math.log(c.width))])

    def built(values: Floats) -> list[TimedCurve]:
        return [
            TimedCurve(family, float(h) * scale, 0.0, 1.0)
            if family is CurveFamily.CONSTANT
            else TimedCurve(family, float(h) * scale, float(at), math.exp(min(max(float(w), -2.0), 12.0)))
            for family, (h, at, w) in zip(families, values.reshape(-1, 3), strict=True)
        ]

    def gap(values: Floats) -> Floats:
        return (sum((curve.values(time) for curve in built(values)), np.zeros_like(time)) - series) / scale

    found = least_squares(gap, start, method="trf", max_nfev=60 * len(start))
    size = len(series)
    free = (
        3 * len(curves) - 2 + 1
    )  # of the floor only the height counts; the variance of the noise is one more
    error = max(float((found.fun**2).mean()), 1e-24)
    criterion = size * math.log(error) + 2 * free + 2 * free * (free + 1) / max(size - free - 1, 1)
    return built(found.x), criterion
