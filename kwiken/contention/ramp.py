"""Ramp of pressure beside a workload: windows to measure, and where workload and kernel give way.

At each level there is one window of the workload alone, three with both, and one of the kernel alone. Windows
are compared with those beside them in time, so that a machine that slows down for all does not count.
"""

from __future__ import annotations

import enum
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

RAMP_LEVELS: Final = tuple(step / 10 for step in range(1, 11))
QOS: Final = 0.95  # share of the performance alone that must remain
CONSECUTIVE: Final = 3  # windows that must fall short, one after the other (iBench, section 6, 11)
BASES: Final = 3  # last windows alone that a window is compared with
CONFIDENCE: Final = 0.95  # of the one-sided test


class Window(enum.Enum):
    """What runs in a window."""

    WORKLOAD = "workload alone"
    BOTH = "both"
    KERNEL = "kernel alone"


@dataclass(frozen=True)
class Step:
    """One window to measure.

    Attributes:
        window: what runs.
        level: level of the kernel, 0 to 1; 0 for the workload alone.
    """

    window: Window
    level: float


@dataclass(frozen=True)
class Scores:
    """Result of a ramp.

    Attributes:
        tolerated: highest level that costs the workload less than 5% of its performance, 0 to 1.
        caused: 1 less the lowest level at which the workload costs the kernel 5% of its speed; 0 where it
            never does.
    """

    tolerated: float
    caused: float


class KneeDetector:
    """Finds the level from which a ratio is below the quality of service.

    A level is violated once three consecutive windows are below 95%, and a one-sided test says with 95%
    confidence that their mean is. The knee is the level of the first of them.

    Args:
        qos: share that must remain.
    """

    def __init__(self, qos: float = QOS) -> None:
        self._qos = qos
        self._last: deque[tuple[float, float]] = deque(maxlen=CONSECUTIVE)
        self.knee: float | None = None

    def add(self, level: float, ratio: float, base_spread: float) -> None:
        """Add a window.

        Args:
            level: level of the kernel.
            ratio: performance in the window relative to that without contention.
            base_spread: standard deviation of the ratio of windows without contention to one another.
        """
        if self.knee is not None:
            return
        self._last.append((level, ratio))
        ratios = [each for _, each in self._last]
        if len(ratios) < CONSECUTIVE or max(ratios) >= self._qos:
            return
        if below(ratios, self._qos, base_spread):
            self.knee = self._last[0][0]


def below(ratios: Sequence[float], bound: float, base_spread: float) -> bool:
    """One-sided t-test: whether the mean of windows is below a bound.

    The spread is pooled: of these windows among themselves, and of windows without contention, which are as
    many and count `BASES - 1` degrees of freedom.

    Args:
        ratios: ratios of the windows, two or more.
        bound: bound of their mean.
        base_spread: standard deviation of windows without contention.
    """
    from scipy.special import stdtrit

    count = len(ratios)
    mean = sum(ratios) / count
    freedom = count - 1 + BASES - 1
    squares = sum((each - mean) ** 2 for each in ratios) + (BASES - 1) * base_spread**2
    error = math.sqrt(squares / freedom * (1 / count + bound**2 / BASES))
    return mean + float(stdtrit(freedom, CONFIDENCE)) * error < bound


@dataclass
class _Bases:
    """Last windows without contention."""

    values: deque[float] = field(default_factory=lambda: deque(maxlen=BASES))

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    @property
    def spread(self) -> float:
        """Standard deviation relative to the mean."""
        if len(self.values) < 2 or not self.mean > 0:  # noqa: PLR2004 - a deviation needs two
            return 0.0
        squares = sum((each - self.mean) ** 2 for each in self.values)
        return math.sqrt(squares / (len(self.values) - 1)) / self.mean


class Ramp:
    """State machine of a ramp: says what to measure next, takes the measurement, ends with the scores.

    Args:
        levels: levels of the kernel, rising, above 0 and at most 1.
        qos: share of performance and speed that must remain.

    Raises:
        ValueError: the levels do not rise, or are out of range.
    """

    def __init__(self, levels: Sequence[float] = RAMP_LEVELS, *, qos: float = QOS) -> None:
        if not levels or list(levels) != sorted(set(levels)) or not 0 < levels[0] <= levels[-1] <= 1:
            raise ValueError("levels must rise, and be above 0 and at most 1")
        self._levels = tuple(levels)
        self._steps: deque[Step] = deque(Step(Window.WORKLOAD, 0.0) for _ in range(BASES - 1))
        for level in levels:
            self._steps.append(Step(Window.WORKLOAD, 0.0))
            self._steps.append(Step(Window.KERNEL, level))
            self._steps.extend(Step(Window.BOTH, level) for _ in range(CONSECUTIVE))
        self._workload = _Bases()
        self._tolerated, self._caused = KneeDetector(qos), KneeDetector(qos)
        self._kernel_alone = 0.0

    @property
    def next(self) -> Step | None:
        """The window to measure next; None at the end, which comes early once both knees are found."""
        if not self._steps or (self._tolerated.knee is not None and self._caused.knee is not None):
            return None
        return self._steps[0]

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
        given = {Window.WORKLOAD: (performance,), Window.KERNEL: (speed,), Window.BOTH: (performance, speed)}
        for value in given[step.window]:
            if value is None or not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{step.window.value} at level {step.level:g}: {value} is no measurement")
        self._steps.popleft()
        if step.window is Window.WORKLOAD:
            assert performance is not None
            self._workload.values.append(performance)
        elif step.window is Window.KERNEL:
            assert speed is not None
            self._kernel_alone = speed
        else:
            assert performance is not None
            assert speed is not None
            spread = self._workload.spread
            alone = self._workload.mean
            self._tolerated.add(step.level, performance / alone if alone > 0 else 1.0, spread)
            # One window of the kernel alone has no spread of its own; that of the workload stands for it.
            self._caused.add(step.level, speed / self._kernel_alone if self._kernel_alone else 1.0, spread)

    @property
    def scores(self) -> Scores:
        """Scores from what was recorded so far."""
        knee = self._tolerated.knee
        at = len(self._levels) if knee is None else self._levels.index(knee)
        tolerated = 1.0 if knee is None else (0.0 if at == 0 else self._levels[at - 1])
        felt = self._caused.knee
        return Scores(tolerated, 0.0 if felt is None else 1.0 - felt)
