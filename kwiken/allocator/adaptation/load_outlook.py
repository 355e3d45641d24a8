"""Outlook of one workload's load: whether it has risen by more than chance, and what to expect from there.

Requests that come at random vary by the root of their number, so a window tells little where they are few.
All ways to cut the recent windows in two are tried: the rise is the cut at which two rates explain the counts
best (a scan by likelihood ratio), and it counts if one rate explains them much worse. Counts of real traffic
vary more than by chance alone; by how much is learned from neighbouring windows.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Final

MEMORY: Final = 24  # windows that are looked at: two minutes
MIN_BEFORE: Final = 2  # windows before a rise
MEDIAN_OF_SQUARES: Final = 0.455  # of a standard normal deviate
PRIOR_WINDOWS: Final = 10.0  # weight of the belief that counts vary by chance alone
LEVEL_WINDOWS: Final = 12  # that tell the level of a load that does not rise
MAX_FACTOR: Final = 2.0  # of the present load; what is expected beyond it is no forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlookSettings:
    """How much a load has to rise, and how far the rise is taken to go on.

    Attributes:
        least_likelihood: log likelihood ratio from which a rise counts, above 0.
        least_windows: number of windows since the rise, 1 or more.
        slope_s: shortest time that a rise is spread over, seconds; a sudden one is no steep one.
        deviations: by which the forecast and the slope are taken above the most likely ones, 0 or more.
        level_deviations: by which the level of a load that does not rise is taken below its mean, 0 or more.
    """

    least_likelihood: float = 6.0
    least_windows: int = 2
    slope_s: float = 20.0
    deviations: float = 1.0
    level_deviations: float = 2.0


@dataclass(slots=True)
class LoadOutlook:
    """Counts of the last windows of one workload, and what they say of the load to come. Pure."""

    settings: OutlookSettings = field(default_factory=OutlookSettings)
    _windows: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=MEMORY))

    def observe(self, arrived: float, lasted_s: float) -> None:
        """Take account of a window.

        Args:
            arrived: number of requests that came in it, 0 or more.
            lasted_s: length of the window, seconds, above 0; others are left out.
        """
        if lasted_s > 0 and math.isfinite(arrived) and arrived >= 0:
            self._windows.append((arrived, lasted_s))

    def expected_per_s(self, ahead_s: float) -> float:
        """Load to prepare for, requests per second: of a rise where it leads, else the least of the level.

        Args:
            ahead_s: time from now to the moment that is prepared for, seconds.
        """
        windows = list(self._windows)
        if not windows:
            return 0.0
        extra = self._variance_over_chance(windows)
        recent = windows[-LEVEL_WINDOWS:]
        level, spread = _rate(recent), _deviation(recent, extra)
        least = max(0.0, level - self.settings.level_deviations * spread)
        cut = self._rise(windows, extra)
        return least if cut is None else max(least, self._forecast(windows, cut, extra, ahead_s))

    def _rise(self, windows: list[tuple[float, float]], extra: float) -> int | None:
        """First window after the likeliest rise; None without one that counts."""
        best, found = self.settings.least_likelihood * extra, None
        arrived, lasted_s = (sum(column) for column in zip(*windows, strict=True))
        whole = _likelihood(arrived, lasted_s)
        latest = _rate(windows[-self.settings.least_windows :])
        before = before_s = 0.0
        for cut, (count, window_s) in enumerate(windows[: -self.settings.least_windows], start=1):
            before, before_s = before + count, before_s + window_s
            since, since_s = arrived - before, lasted_s - before_s
            if cut < MIN_BEFORE or min(since / since_s, latest) <= before / before_s:
                continue
            ratio = _likelihood(before, before_s) + _likelihood(since, since_s) - whole
            if ratio > best:
                best, found = ratio, cut
        return found

    def _forecast(self, windows: list[tuple[float, float]], cut: int, extra: float, ahead_s: float) -> float:
        before, since = windows[:cut], windows[cut:]
        now = since[-2:]
        level = _rate(now)
        lasted_s = sum(lasted for _, lasted in since)
        slope = (level - _rate(before)) / max(self.settings.slope_s, lasted_s)
        if len(since) > 1:
            steepness, error = _slope(since, extra)
            slope = min(slope, steepness + self.settings.deviations * error)
        half_s = sum(lasted for _, lasted in now) / 2
        expected = level + max(0.0, slope) * (ahead_s + half_s)
        expected += self.settings.deviations * _deviation(now, extra)
        return min(expected, MAX_FACTOR * level)

    @staticmethod
    def _variance_over_chance(windows: list[tuple[float, float]]) -> float:
        """Variance of the counts over that of random requests, 1 or more."""
        squares = []
        for (first, first_s), (then, then_s) in itertools.pairwise(windows):
            by_chance = (first + then) / (first_s + then_s) * (1 / first_s + 1 / then_s)
            if by_chance > 0:
                squares.append((then / then_s - first / first_s) ** 2 / by_chance)
        seen = median(squares) / MEDIAN_OF_SQUARES if squares else 1.0
        return max(1.0, (len(squares) * seen + PRIOR_WINDOWS) / (len(squares) + PRIOR_WINDOWS))


def _rate(windows: list[tuple[float, float]]) -> float:
    return sum(arrived for arrived, _ in windows) / sum(lasted for _, lasted in windows)


def _deviation(windows: list[tuple[float, float]], extra: float) -> float:
    """Standard error of a rate, requests per second."""
    lasted_s = sum(lasted for _, lasted in windows)
    return math.sqrt(extra * max(1.0, sum(arrived for arrived, _ in windows))) / lasted_s


def _likelihood(arrived: float, lasted_s: float) -> float:
    """Log likelihood of one rate, less what is the same for every cut."""
    return arrived * math.log(arrived / lasted_s) if arrived > 0 else 0.0


def _slope(windows: list[tuple[float, float]], extra: float) -> tuple[float, float]:
    """Slope of the rate by least squares, requests per second per second, and its standard error."""
    ends, at = 0.0, []
    for _, lasted in windows:
        at.append(ends + lasted / 2)
        ends += lasted
    centre = sum(at) / len(at)
    squares = sum((one - centre) ** 2 for one in at)
    slope = sum((x - centre) * arrived / lasted for x, (arrived, lasted) in zip(at, windows, strict=True))
    variance = sum(
        (x - centre) ** 2 * extra * max(1.0, arrived) / lasted**2
        for x, (arrived, lasted) in zip(at, windows, strict=True)
    )
    return slope / squares, math.sqrt(variance) / squares
