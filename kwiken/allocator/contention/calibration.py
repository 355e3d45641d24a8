"""Calibration of a contention kernel: pressure by level, and the level to set for a wanted pressure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

MIN_R_SQUARED: Final = 0.98  # of a kernel that needs no correction (iBench, section 2.5)
MAX_RESIDUAL: Final = 0.05  # of full pressure
CALIBRATION_LEVELS: Final = tuple(step / 8 for step in range(9))


@dataclass(frozen=True)
class Speed:
    """Speed of a contention kernel over a window.

    Attributes:
        rate: operations per second.
        busy_rate: operations per second, counting only the time in which the kernel worked or waited for the
            resource; falls where another program uses the resource.
    """

    rate: float
    busy_rate: float


@dataclass(frozen=True)
class Calibration:
    """Pressure that a kernel reaches at each level, alone.

    Attributes:
        levels: (n,) wanted levels, rising from 0 to 1.
        drives: (n,) levels that were set to reach the wanted ones.
        reached: (n,) pressure that was reached, as a share of that at full level.
        peak: operations per second at full level; for memory capacity the number of bytes held.
    """

    source: str
    levels: tuple[float, ...]
    drives: tuple[float, ...]
    reached: tuple[float, ...]
    peak: float

    def drive(self, level: float) -> float:
        """Level to set in order to reach a wanted level; linear between the measured ones."""
        return float(np.interp(level, self.levels, self.drives))

    @property
    def residual(self) -> float:
        """Largest distance of the reached pressure from the line through it, as a share of full pressure."""
        return float(np.abs(_from_line(self.levels, self.reached)).max())

    @property
    def r_squared(self) -> float:
        """Share of the variance of the reached pressure that the line explains."""
        reached = np.array(self.reached)
        spread = float(((reached - reached.mean()) ** 2).sum())
        missed = float((_from_line(self.levels, self.reached) ** 2).sum())
        return 1 - missed / spread if spread > 0 else 0.0

    @property
    def linear(self) -> bool:
        """Whether the pressure is near enough to a line to profile with."""
        return self.residual <= MAX_RESIDUAL and self.r_squared >= MIN_R_SQUARED


def _from_line(levels: Sequence[float], reached: Sequence[float]) -> Floats:
    x, y = np.array(levels), np.array(reached)
    slope, offset = np.polyfit(x, y, 1)
    return np.asarray(y - (offset + slope * x), dtype=float)


def calibrate(
    source: str, levels: Sequence[float], rates: Sequence[float], drives: Sequence[float] | None = None
) -> Calibration:
    """Calibration from measured rates.

    Args:
        levels: levels that were wanted, rising from 0 to 1.
        rates: what was measured at each: operations per second, or bytes that are held.
        drives: levels that were set; None for the wanted ones.

    Raises:
        ValueError: nothing was measured at full level, or the levels do not rise from 0 to 1.
    """
    if len(levels) < 3 or levels[0] != 0 or levels[-1] != 1 or list(levels) != sorted(set(levels)):  # noqa: PLR2004 - a line and one more
        raise ValueError("levels must rise from 0 to 1, with 1 or more between")
    if not rates[-1] > 0:
        raise ValueError("nothing was measured at full level")
    reached = tuple(float(rate / rates[-1]) for rate in rates)
    set_ = tuple(levels) if drives is None else tuple(drives)
    return Calibration(source, tuple(levels), set_, reached, float(rates[-1]))


def corrected_drives(found: Calibration) -> tuple[float, ...]:
    """Levels to set in order to reach the wanted ones: the measured curve, made monotone and inverted.

    The curve between measured levels is taken as linear. Full level stays full.
    """
    reached = monotone(np.array(found.reached))
    reached = reached / reached[-1]
    # A flat part has no inverse; its highest level is taken.
    rising = np.concatenate([reached[:-1] < reached[1:], [True]])
    drives = np.interp(found.levels, reached[rising], np.array(found.drives)[rising])
    drives[0], drives[-1] = found.drives[0], found.drives[-1]
    return tuple(float(each) for each in drives)


def monotone(values: Floats, weights: Floats | None = None) -> Floats:
    """Closest values that never fall, by least squares: the pool-adjacent-violators algorithm.

    Args:
        values: (n,) values.
        weights: (n,) weights of the values, above 0; None for equal ones.
    """
    means: list[float] = []
    totals: list[float] = []
    counts: list[int] = []
    for value, weight in zip(values, np.ones(len(values)) if weights is None else weights, strict=True):
        means.append(float(value))
        totals.append(float(weight))
        counts.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            total = totals[-2] + totals[-1]
            mean = (means[-2] * totals[-2] + means[-1] * totals[-1]) / total
            count = counts[-2] + counts[-1]
            del means[-1], totals[-1], counts[-1]
            means[-1], totals[-1], counts[-1] = mean, total, count
    return np.repeat(means, counts)
