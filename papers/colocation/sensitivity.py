"""Sensitivity: the least share of a resource with which a task keeps its indicators, on a monotone curve.

A curve holds shares of a resource and the impact that was measured at each, such as the relative rise of p99.
Latency rises steeply where processors run out, so a straight line through the points is wrong. Noise makes a
curve rise and fall. The curve is therefore fitted as monotone (pool adjacent violators) and interpolated
between its points.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError

TOLERANCE: Final = 0.05  # relative change of an indicator that counts as kept
DIMENSIONS: Final = ("cpu", "memory bandwidth", "network bandwidth")


@dataclass(frozen=True, kw_only=True)
class NodeArchitecture:
    """Machine type that scores are carried between.

    Attributes:
        cores: number of cores of a machine.
        memory_gb: memory of a machine, in units of GB.
        memory_gbps: memory bandwidth of a machine, GB a second.
        network_gbps: network bandwidth of a machine, Gbit a second.
        speed: throughput of a whole machine, as a factor of the slowest type.
    """

    name: str
    cores: float
    memory_gb: float
    memory_gbps: float
    network_gbps: float
    speed: float

    @property
    def strengths(self) -> Floats:
        """(3,) Speed, and memory and network bandwidth for each core: what scores are divided by."""
        return np.array([self.speed, self.memory_gbps / self.cores, self.network_gbps / self.cores])


def carried(scores: Floats, measured_on: NodeArchitecture, to: NodeArchitecture) -> Floats:
    """Scores on another machine type: inverse to its speed, and to its bandwidth for each core.

    Args:
        scores: (..., 3) score of processors, memory bandwidth and network bandwidth.
        measured_on: machine type of the scores.
        to: machine type to carry them to.

    Returns:
        (..., 3) scores; above 1 where the type cannot host the task and keep its indicators.
    """
    return np.asarray(scores * measured_on.strengths / to.strengths, dtype=np.float64)


def monotone(values: Floats) -> Floats:
    """Nearest series that never rises, by pooling neighbours that violate the order.

    Args:
        values: (n,) series, such as impacts by rising share of a resource.
    """
    sums: list[float] = []
    counts: list[int] = []
    for value in values.tolist():
        sums.append(value)
        counts.append(1)
        while len(sums) > 1 and sums[-2] * counts[-1] < sums[-1] * counts[-2]:
            last, many = sums.pop(), counts.pop()
            sums[-1] += last
            counts[-1] += many
    return np.repeat(np.array(sums) / np.array(counts), counts)


def least_share(shares: Floats, impacts: Floats, tolerance: float = TOLERANCE) -> float:
    """Least share of a resource whose impact is within the tolerance: the score.

    Args:
        shares: (n,) shares of the resource that the task was given, rising, above 0 and at most 1.
        impacts: (n,) relative change of the worst indicator at each share; 0.1 for 10% worse.
        tolerance: largest change that counts as kept, above 0.

    Returns:
        a share from the lowest measured one to 1; 1 where even the largest share has a larger impact.

    Raises:
        InputError: for shares that do not rise, or series of unequal length.
    """
    if len(shares) != len(impacts) or len(shares) == 0 or np.any(np.diff(shares) <= 0):
        raise InputError("shares must rise, with one impact each", where="sensitivity")
    fitted = monotone(impacts)
    if fitted[-1] > tolerance:
        return 1.0
    first = int(np.argmax(fitted <= tolerance))
    if first == 0:
        return float(shares[0])
    high, low = fitted[first - 1], fitted[first]
    part = (tolerance - low) / (high - low)
    return float(min(1.0, shares[first] - part * (shares[first] - shares[first - 1])))


@dataclass(frozen=True, eq=False)
class SensitivityCurve:
    """Impact of a resource on a stage, and its score.

    Attributes:
        shares: (n,) shares of the resource that were left to the stage, rising, above 0 and at most 1.
        p99_ms: (n,) p99 latency at each, milliseconds.
        impacts: (n,) relative rise of p99 over that at the largest share, on a curve that never rises.
        score: least share within the tolerance.
    """

    shares: Floats
    p99_ms: Floats
    impacts: Floats
    score: float


def sensitivity_curve(shares: Floats, p99_ms: Floats, tolerance: float = TOLERANCE) -> SensitivityCurve:
    """Curve and score of a stage from the p99 at each share of a resource.

    Args:
        shares: (n,) shares that were left to the stage, rising, above 0 and at most 1.
        p99_ms: (n,) p99 latency at each, milliseconds, above 0.
        tolerance: largest relative rise that counts as kept, above 0.
    """
    impacts = p99_ms / p99_ms[-1] - 1.0
    score = least_share(shares, impacts, tolerance)
    return SensitivityCurve(shares, p99_ms, monotone(impacts), score)


def on_class(score: float, speed: float) -> float:
    """Processor score on a class of node that is as many times as fast as the one of the measurement.

    Args:
        score: score where the stage was measured.
        speed: speed of the class as a factor of that machine's, above 0.

    Returns:
        the score there; above 1 where the class cannot host the stage and keep its p99.
    """
    return score / speed
