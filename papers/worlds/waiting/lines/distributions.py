"""Closed forms of busy times: normal, lognormal, exponential, Weibull and gamma, fitted by likelihood.

Written without NumPy or SciPy, since a gateway imports it.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MIN_SAMPLES: Final = 30  # below it the samples themselves are the distribution
TERMS: Final = 400  # of a series of the incomplete gamma function
TINY: Final = 1e-300
STEPS: Final = 60  # of an iteration for a shape
CLOSE: Final = 1e-10  # relative change at which an iteration ends
GRID: Final = 64  # points of the mean rest


class BusyFamily(StrEnum):
    """Kind of a distribution of busy times.

    Attributes:
        EMPIRICAL: the samples themselves.
    """

    NORMAL = "normal"
    LOGNORMAL = "lognormal"
    EXPONENTIAL = "exponential"
    WEIBULL = "weibull"
    GAMMA = "gamma"
    EMPIRICAL = "empirical"


@dataclass(frozen=True)
class BusyTime:
    """Distribution of the time from a job's start on a node to its end, in seconds.

    Attributes:
        mean_s: mean time, in seconds, above 0.
        below: probability that the time is at most this many seconds.
    """

    family: BusyFamily
    mean_s: float
    below: Callable[[float], float]

    def within(self, age_s: float, more_s: float) -> float:
        """Probability that a job of this age ends within some more time; 1 for one past every known time.

        Args:
            age_s: time since its start, in seconds.
            more_s: time from now on, in seconds.
        """
        left = 1.0 - self.below(age_s)
        if left <= CLOSE:
            return 1.0
        return min(1.0, max(0.0, (self.below(age_s + more_s) - (1.0 - left)) / left))

    def rest_within(self, more_s: float) -> float:
        """Probability that a job that is met at a random moment of its time ends within some more time.

        Args:
            more_s: time from that moment on, in seconds.
        """
        step = more_s / GRID  # Simpson's rule; GRID is even
        sums = 2.0 - self.below(0.0) - self.below(more_s)
        sums += 4 * sum(1.0 - self.below((2 * at + 1) * step) for at in range(GRID // 2))
        sums += 2 * sum(1.0 - self.below(2 * at * step) for at in range(1, GRID // 2))
        return min(1.0, max(0.0, sums * step / (3 * self.mean_s)))


def normal(mean_s: float, deviation_s: float) -> BusyTime:
    """Normal distribution, as published for the best pool.

    Args:
        mean_s: mean, in seconds.
        deviation_s: standard deviation, in seconds, above 0.
    """
    scale = deviation_s * math.sqrt(2)
    return BusyTime(BusyFamily.NORMAL, mean_s, lambda time: 0.5 * math.erfc((mean_s - time) / scale))


def exponential(mean_s: float) -> BusyTime:
    """Exponential distribution.

    Args:
        mean_s: mean, in seconds, above 0.
    """
    return BusyTime(BusyFamily.EXPONENTIAL, mean_s, lambda time: -math.expm1(-max(time, 0.0) / mean_s))


def empirical(times_s: Sequence[float]) -> BusyTime:
    """Samples as their own distribution, with straight lines between them.

    Args:
        times_s: samples, in seconds, above 0; one or more.
    """
    ordered = sorted(times_s)
    count = len(ordered)

    def below(time: float) -> float:
        at = bisect.bisect_right(ordered, time)
        if at == count:
            return 1.0
        low = ordered[at - 1] if at else 0.0
        part = (time - low) / (ordered[at] - low) if ordered[at] > low else 0.0
        return max(0.0, (at + part) / (count + 1))

    return BusyTime(BusyFamily.EMPIRICAL, math.fsum(ordered) / count, below)


def fitted(times_s: Sequence[float]) -> BusyTime:
    """The family of largest likelihood by Akaike's criterion; the samples themselves where they are few.

    Args:
        times_s: samples, in seconds, above 0; one or more.
    """
    count = len(times_s)
    mean = math.fsum(times_s) / count
    variance = math.fsum((time - mean) ** 2 for time in times_s) / count
    if count < MIN_SAMPLES or min(times_s) <= 0 or variance <= (CLOSE * mean) ** 2:
        return empirical(times_s)
    logs = [math.log(time) for time in times_s]
    log_mean = math.fsum(logs) / count
    log_variance = math.fsum((log - log_mean) ** 2 for log in logs) / count
    candidates = [
        (2 - 2 * count * (-math.log(mean) - 1), exponential(mean)),
        (4 + count * (math.log(2 * math.pi * variance) + 1), normal(mean, math.sqrt(variance))),
        (
            4 + count * (math.log(2 * math.pi * log_variance) + 1 + 2 * log_mean),
            _lognormal(log_mean, log_variance),
        ),
        _weibull(times_s, logs, log_mean),
        _gamma(mean, log_mean, count),
    ]
    return min(candidates, key=lambda found: found[0])[1]


def _lognormal(log_mean: float, log_variance: float) -> BusyTime:
    scale = math.sqrt(2 * log_variance)

    def below(time: float) -> float:
        return 0.5 * math.erfc((log_mean - math.log(time)) / scale) if time > 0 else 0.0

    return BusyTime(BusyFamily.LOGNORMAL, math.exp(log_mean + log_variance / 2), below)


def _weibull(times_s: Sequence[float], logs: Sequence[float], log_mean: float) -> tuple[float, BusyTime]:
    """Weibull distribution by Newton's iteration for the shape; the scale follows."""
    count, largest = len(times_s), max(times_s)
    shape = 1.0
    for _ in range(STEPS):
        powers = [(time / largest) ** shape for time in times_s]
        total = math.fsum(powers)
        first = math.fsum(power * log for power, log in zip(powers, logs, strict=True)) / total
        second = math.fsum(power * log * log for power, log in zip(powers, logs, strict=True)) / total
        gap = 1 / shape + log_mean - first
        slope = -1 / shape**2 - (second - first**2)
        step = max(-shape / 2, min(shape, -gap / slope))
        shape += step
        if abs(step) < CLOSE * shape:
            break
    scale = largest * (math.fsum((time / largest) ** shape for time in times_s) / count) ** (1 / shape)
    likelihood = count * (math.log(shape) - shape * math.log(scale) + (shape - 1) * log_mean - 1)

    def below(time: float) -> float:
        return -math.expm1(-((max(time, 0.0) / scale) ** shape))

    return 4 - 2 * likelihood, BusyTime(BusyFamily.WEIBULL, scale * math.gamma(1 + 1 / shape), below)


def _gamma(mean: float, log_mean: float, count: int) -> tuple[float, BusyTime]:
    """Gamma distribution by Minka's iteration for the shape; the scale follows."""
    gap = math.log(mean) - log_mean
    shape = (3 - gap + math.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(STEPS):
        digamma, trigamma = _digamma(shape), _trigamma(shape)
        inverse = 1 / shape + (math.log(shape) - digamma - gap) / (shape**2 * (1 / shape - trigamma))
        changed = 1 / inverse
        done = abs(changed - shape) < CLOSE * shape
        shape = changed
        if done:
            break
    scale = mean / shape
    likelihood = count * ((shape - 1) * log_mean - shape - shape * math.log(scale) - math.lgamma(shape))
    found = BusyTime(BusyFamily.GAMMA, mean, lambda time: _incomplete_gamma(shape, max(time, 0.0) / scale))
    return 4 - 2 * likelihood, found


def _digamma(value: float) -> float:
    less = 0.0
    while value < 8:  # noqa: PLR2004 - from there the series is exact to twelve digits
        less += 1 / value
        value += 1
    square = 1 / value**2
    return math.log(value) - 0.5 / value - square * (1 / 12 - square * (1 / 120 - square / 252)) - less


def _trigamma(value: float) -> float:
    more = 0.0
    while value < 8:  # noqa: PLR2004 - as above
        more += 1 / value**2
        value += 1
    square = 1 / value**2
    return 1 / value + square / 2 + square / value * (1 / 6 - square * (1 / 30 - square / 42)) + more


def _incomplete_gamma(shape: float, value: float) -> float:
    """Regularised lower incomplete gamma function: a series below the mean, a continued fraction above."""
    if value <= 0:
        return 0.0
    front = math.exp(shape * math.log(value) - value - math.lgamma(shape))
    if value < shape + 1:
        term = total = 1 / shape
        for at in range(1, TERMS):
            term *= value / (shape + at)
            total += term
            if term < CLOSE * total:
                break
        return min(1.0, total * front)
    base = value + 1 - shape
    above, below = 1 / TINY, 1 / base
    fraction = below
    for at in range(1, TERMS):
        factor = -at * (at - shape)
        base += 2
        below = 1 / (factor * below + base or TINY)
        above = base + factor / above or TINY
        fraction *= above * below
        if abs(above * below - 1) < CLOSE:
            break
    return max(0.0, 1.0 - fraction * front)
