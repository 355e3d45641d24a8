"""Scales of axes: coordinates of values, and ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Map from values to coordinates, linear or logarithmic.

    Attributes:
        low: value at coordinate `start`.
        high: value at coordinate `end`.
        start: coordinate of `low`.
        end: coordinate of `high`; below `start` for heights.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Coordinate of a value, clamped to the ends of the scale."""
        value = min(max(value, self.low), self.high)
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def log_scale(values: list[float], start: float, end: float) -> Scale:
    """Logarithmic scale of the values, with a margin at both ends."""
    kept = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
    low, high = min(kept) / 1.15, max(kept) * 1.15
    return Scale(low, max(high, 2 * low), start, end, log=True)


def linear_scale(high: float, start: float, end: float) -> Scale:
    """Linear scale from 0 to a little above the highest value."""
    return Scale(0.0, 1.04 * high if high > 0 and math.isfinite(high) else 1.0, start, end)


def log_ticks(scale: Scale) -> list[float]:
    """Round values (1, 2, 5 times a power of ten) within a scale; fewer if it spans many decades."""
    first, last = math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high))
    steps = (1, 2, 5) if last - first <= 4 else (1,)  # noqa: PLR2004 - as many as can be read
    ticks = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if scale.low <= tick <= scale.high]


def linear_ticks(scale: Scale, most: int = 5) -> list[float]:
    """Round values from 0, about the given number at most; only 0 on a scale of length 0."""
    if not scale.high > 0:
        return [0.0]
    raw = scale.high / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= raw)
    return [step * index for index in range(math.floor(scale.high / step) + 1)]
