"""Rules that say which load to prepare for, each told the requests of one window after the other."""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import Protocol

import numpy as np

from kwiken.allocator.adaptation.load_outlook import LoadOutlook, OutlookSettings

WINDOW_S = 5.0


class LookAhead(Protocol):
    """A rule."""

    def expected_per_s(self, arrived: int, ahead_s: float) -> float:
        """Load to prepare for, requests per second, after a window of some requests; 0 for none."""
        ...


class Reactive:
    """Prepares for nothing: a node is ordered once p99 is missed."""

    def expected_per_s(self, arrived: int, ahead_s: float) -> float:
        """See `LookAhead`."""
        del arrived, ahead_s
        return 0.0


class Headroom:
    """A fixed share above the load of the last ten seconds."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._windows: deque[int] = deque(maxlen=2)

    def expected_per_s(self, arrived: int, ahead_s: float) -> float:
        """See `LookAhead`."""
        del ahead_s
        self._windows.append(arrived)
        if len(self._windows) < 2:
            return 0.0
        return (1 + self._share) * sum(self._windows) / (len(self._windows) * WINDOW_S)


class ThreeRising:
    """The rule until now: three windows in a row that rise, and two deviations."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=5)
        self._last = 0

    def expected_per_s(self, arrived: int, ahead_s: float) -> float:
        """See `LookAhead`."""
        rate = max(arrived, (arrived + self._last) / 2) / WINDOW_S
        self._last = arrived
        self._seen.append(rate)
        first, rates = self._seen[0], list(self._seen)[-3:]
        rises = len(rates) == 3 and all(a < b for a, b in itertools.pairwise(rates))
        if not rises or rate - first <= 2 * math.sqrt((rate + first) / WINDOW_S):
            return 0.0
        lasted_s = WINDOW_S * (len(self._seen) - 1)
        return min(2 * rate, rate + (rate - first) / lasted_s * ahead_s)


class Outlook:
    """Quantile of the loads that hypotheses about the last windows lead to."""

    def __init__(self, settings: OutlookSettings) -> None:
        self._outlook = LoadOutlook(settings)

    def expected_per_s(self, arrived: int, ahead_s: float) -> float:
        """See `LookAhead`."""
        self._outlook.observe(arrived, WINDOW_S)
        return self._outlook.expected_per_s(ahead_s)


class LocalLine:
    """Level and slope that drift (Holt's line as a Kalman filter with the known noise of counts).

    Args:
        drift: deviation of the slope's change over a second, as a share of the level, per second.
        deviations: of the forecast by which it is taken higher.
        rising: deviations by which the slope has to be above 0.
    """

    def __init__(self, drift: float, deviations: float, rising: float) -> None:
        self._drift, self._deviations, self._rising = drift, deviations, rising
        self._state: np.ndarray | None = None
        self._spread = np.zeros((2, 2))

    def expected_per_s(self, arrived: int, ahead_s: float) -> float:
        """See `LookAhead`."""
        rate = arrived / WINDOW_S
        noise = max(1.0, arrived) / WINDOW_S**2
        if self._state is None:
            self._state = np.array([rate, 0.0])
            self._spread = np.diag([noise, (0.002 * max(rate, 1e-9)) ** 2])
            return 0.0
        step = np.array([[1.0, WINDOW_S], [0.0, 1.0]])
        shaken = (self._drift * max(self._state[0], 1e-9)) ** 2 * np.array(
            [[WINDOW_S**3 / 3, WINDOW_S**2 / 2], [WINDOW_S**2 / 2, WINDOW_S]]
        )
        state = step @ self._state
        spread = step @ self._spread @ step.T + shaken
        noise = max(1.0, state[0] * WINDOW_S) / WINDOW_S**2
        gain = spread[:, 0] / (spread[0, 0] + noise)
        self._state = state + gain * (rate - state[0])
        self._spread = spread - np.outer(gain, spread[0])
        if self._state[1] <= self._rising * math.sqrt(max(0.0, self._spread[1, 1])):
            return 0.0
        reach = np.array([1.0, ahead_s])
        spread_ahead = float(reach @ self._spread @ reach)
        expected = float(reach @ self._state) + self._deviations * math.sqrt(max(0.0, spread_ahead))
        return min(expected, 2 * max(0.0, float(self._state[0])))
