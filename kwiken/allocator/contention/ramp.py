"""Ramp of pressure beside a workload: windows to measure, and the levels at which either side loses 5%.

One visit of a level is five windows in a row: the workload alone, both, the kernel alone, both, the workload
alone. The last window is the first of the next visit. A visit is symmetric in time, so that a machine whose
speed drifts does not count. The first visit is at full level. Each next one is where the less certain of the
two scores is decided, so that few visits suffice.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

import numpy as np

from kwiken.allocator.contention.calibration import monotone

QOS: Final = 0.95  # share of the performance alone that must remain
MIN_VISITS: Final = 2
MAX_VISITS: Final = 6
MAX_DEVIATION: Final = 0.03  # of each score; a ramp ends once both are known so well
MIN_LEVEL: Final = 0.05  # of a visit
LEVEL_STEP: Final = 0.01  # of levels that are visited
MAX_LINEAR_BRACKET: Final = 0.25  # width of a bracket that a straight line describes well enough to aim by
# Deviation of a crossing for the unknown shape of the curve, as a share of its bracket's width.
SHAPE_SHARE: Final = 0.2
MAX_LOSS: Final = math.log(20.0)  # logarithm; larger ones are not told apart
PRIOR_NOISE: Final = 0.02  # standard deviation of one window's logarithm before any was seen
PRIOR_FREEDOM: Final = 2.0  # number of differences that the prior counts for


class RampWindow(enum.Enum):
    """Programs that run in a window: the workload, the kernel, or both."""

    WORKLOAD = "workload alone"
    BOTH = "both"
    KERNEL = "kernel alone"


VISIT: Final = (RampWindow.BOTH, RampWindow.KERNEL, RampWindow.BOTH, RampWindow.WORKLOAD)


@dataclass(frozen=True)
class RampStep:
    """One window to measure.

    Attributes:
        level: level of the kernel, 0 to 1; 0 for the workload alone.
    """

    window: RampWindow
    level: float


@dataclass(frozen=True)
class Scores:
    """Result of a ramp: expected scores and their standard deviations, all from 0 to 1.

    Attributes:
        tolerated: level that costs the workload 5% of its performance; 1 where none does.
        caused: 1 less the level at which the workload costs the kernel 5% of its speed; 0 where none does.
        tolerated_deviation: standard deviation of the former.
        caused_deviation: standard deviation of the latter.
    """

    tolerated: float
    caused: float
    tolerated_deviation: float
    caused_deviation: float


@dataclass(frozen=True)
class _Crossing:
    """Level at which a curve reaches the bound, as a normal distribution; beyond 1 where it does not.

    Attributes:
        mean: expected level.
        deviation: standard deviation.
        bracket: visited levels around it; None where the loss at full level is below the bound.
    """

    mean: float
    deviation: float
    bracket: tuple[float, float] | None

    @property
    def aim(self) -> float:
        """Level to visit next: near the crossing, and nearer the middle of a wide bracket."""
        if self.bracket is None:
            return 1.0
        low, high = self.bracket
        level = self.mean if high - low <= MAX_LINEAR_BRACKET else (self.mean + (low + high) / 2) / 2
        return min(max(round(level / LEVEL_STEP) * LEVEL_STEP, MIN_LEVEL), 1.0)

    def clipped(self) -> tuple[float, float]:
        """Mean and standard deviation of the level where it is limited to 0 to 1."""
        mean, deviation = self.mean, max(self.deviation, 1e-6)
        low, high = -mean / deviation, (1 - mean) / deviation
        normal = NormalDist()
        above, inside = 1 - normal.cdf(high), normal.cdf(high) - normal.cdf(low)
        at_low, at_high = normal.pdf(low), normal.pdf(high)
        first = mean * inside + deviation * (at_low - at_high) + above
        second = (mean**2 + deviation**2) * inside + above
        second += deviation * (mean * at_low - (mean + 1) * at_high)
        return min(max(first, 0.0), 1.0), math.sqrt(max(second - first**2, 0.0))


@dataclass
class _LossCurve:
    """Loss of one side by level: visits, the noise of a window, and where the loss reaches the bound.

    Attributes:
        bound: loss that is looked for, a logarithm.
        variance_share: variance of a visit's loss, as a multiple of one window's.
        losses: by level, the losses of its visits, logarithms.
        squares: sum of squared differences between windows of one kind in one visit, each halved.
    """

    bound: float
    variance_share: float
    losses: dict[float, list[float]] = field(default_factory=dict)
    squares: float = 0.0
    freedom: int = 0

    def add(self, level: float, loss: float, squares: float, freedom: int) -> None:
        """Add a visit."""
        self.losses.setdefault(level, []).append(min(max(loss, -MAX_LOSS), MAX_LOSS))
        self.squares += squares
        self.freedom += freedom

    @property
    def crossing(self) -> _Crossing:
        """Where the closest curve that never falls, and starts without loss, reaches the bound.

        There are two cases: 1. the loss at full level is below the bound: the crossing is beyond 1, by the
        share of the bound that is missing; 2. it is above: the curve between the two visited levels around
        the bound is taken as a line.
        """
        prior = PRIOR_FREEDOM * PRIOR_NOISE**2
        noise = (prior + self.squares) / (PRIOR_FREEDOM + self.freedom) * self.variance_share
        levels = sorted(self.losses)
        counts = np.array([len(self.losses[level]) for level in levels], dtype=float)
        means = np.array([float(np.mean(self.losses[level])) for level in levels])
        curve = [0.0, *np.maximum(monotone(means, counts), 0.0).tolist()]
        variances = [0.0, *(noise / counts).tolist()]
        levels = [0.0, *levels]
        if curve[-1] < self.bound:
            missing = (self.bound - curve[-1]) / self.bound
            return _Crossing(1 + missing, math.sqrt(variances[-1]) / self.bound, None)
        at = next(place for place, loss in enumerate(curve) if loss >= self.bound)
        width, rise = levels[at] - levels[at - 1], curve[at] - curve[at - 1]
        share = (self.bound - curve[at - 1]) / rise
        error = (1 - share) ** 2 * variances[at - 1] + share**2 * variances[at]
        deviation = math.hypot(math.sqrt(error) * width / rise, SHAPE_SHARE * width)
        mean = levels[at - 1] + share * width
        return _Crossing(mean, min(deviation, 1.0), (levels[at - 1], levels[at]))


class Ramp:
    """State machine of a ramp: says what to measure next, takes the measurement, ends with the scores.

    Args:
        qos: share of performance and speed that must remain, above 0 and below 1.
        max_visits: most visits, 1 or more.

    Raises:
        ValueError: a value is out of range.
    """

    def __init__(self, *, qos: float = QOS, max_visits: int = MAX_VISITS) -> None:
        if not 0 < qos < 1:
            raise ValueError(f"qos must be above 0 and below 1, not {qos}")
        if max_visits < 1:
            raise ValueError(f"max_visits must be 1 or more, not {max_visits}")
        bound = -math.log(qos)
        # A visit's loss is the mean of two windows of both, less that of two, or of one, of one side.
        self._workload, self._kernel = _LossCurve(bound, 1.0), _LossCurve(bound, 1.5)
        self._max_visits = max_visits
        self._visits = 0
        self._level = 1.0
        self._steps = deque([RampStep(RampWindow.WORKLOAD, 0.0)])
        self._performances: list[float] = []  # of this visit's windows, from the first alone
        self._speeds: list[float] = []
        self._plan_visit()

    def _plan_visit(self) -> None:
        self._steps.extend(
            RampStep(window, 0.0 if window is RampWindow.WORKLOAD else self._level) for window in VISIT
        )

    @property
    def next(self) -> RampStep | None:
        """The window to measure next; None once both scores are certain or visits are used up."""
        return self._steps[0] if self._steps else None

    def record(self, performance: float | None, speed: float | None) -> None:
        """Take the measurement of the window that `next` asked for.

        Args:
            performance: performance of the workload, higher is better; None where it did not run.
            speed: speed of the kernel while busy, operations per second; None where it did not run.

        Raises:
            ValueError: the ramp is at its end, or a value is missing or not finite.
        """
        step = self.next
        if step is None:
            raise ValueError("the ramp is at its end")
        given = {
            RampWindow.WORKLOAD: (performance,),
            RampWindow.KERNEL: (speed,),
            RampWindow.BOTH: (performance, speed),
        }
        for value in given[step.window]:
            if value is None or not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{step.window.value} at level {step.level:g}: {value} is no measurement")
        self._steps.popleft()
        if step.window is not RampWindow.KERNEL:
            assert performance is not None
            self._performances.append(performance)
        if step.window is not RampWindow.WORKLOAD:
            assert speed is not None
            self._speeds.append(speed)
        if not self._steps:
            self._end_visit()

    def _end_visit(self) -> None:
        """Take a visit's losses, and plan the next visit where one is needed."""
        before, first, second, after = self._performances
        self._workload.add(self._level, *_loss((before, after), (first, second)))
        first, alone, second = self._speeds
        self._kernel.add(self._level, *_loss((alone,), (first, second)))
        self._performances, self._speeds = [after], []
        self._visits += 1
        crossings = [self._workload.crossing, self._kernel.crossing]
        deviations = [each.clipped()[1] for each in crossings]
        certain = self._visits >= MIN_VISITS and max(deviations) <= MAX_DEVIATION
        if self._visits < self._max_visits and not certain:
            self._level = crossings[deviations.index(max(deviations))].aim
            self._plan_visit()

    @property
    def scores(self) -> Scores:
        """Scores from the visits so far.

        Raises:
            ValueError: no visit has ended yet.
        """
        if not self._visits:
            raise ValueError("no visit has ended yet")
        tolerated, tolerated_deviation = self._workload.crossing.clipped()
        felt, felt_deviation = self._kernel.crossing.clipped()
        return Scores(tolerated, 1 - felt, tolerated_deviation, felt_deviation)


def _loss(alone: tuple[float, ...], beside: tuple[float, float]) -> tuple[float, float, int]:
    """Loss of a visit as a logarithm, and the noise that its windows show: sum and number of squares.

    Without any performance alone nothing can be lost.

    Args:
        alone: performance in the windows without the other side.
        beside: performance in the windows with both.
    """
    if not min(alone) > 0:
        return 0.0, 0.0, 0
    least = min(alone) * math.exp(-MAX_LOSS)
    base = [math.log(each) for each in alone]
    left = [math.log(max(each, least)) for each in beside]
    pairs = [each for each in (base, left) if len(each) > 1]
    squares = sum((first - second) ** 2 / 2 for first, second in pairs)
    return sum(base) / len(base) - sum(left) / len(left), squares, len(pairs)
