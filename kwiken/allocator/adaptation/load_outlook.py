"""Outlook of one workload's load: how likely it rises, and what to expect of it in some seconds.

Requests that come at random vary by the root of their number, so a window tells little where they are few.
Each hypothesis says how the rate of the last windows ran: it stayed; it changed to another level at once;
it rises since some moment, by a share of what it was in each second; or it stayed but for a burst. The
counts weigh the hypotheses by Bayes' rule, older windows less, and each says where the load will be. A
quantile of these loads is expected.
Counts of real traffic vary more than by chance alone; by how much is learned from neighbouring windows.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from statistics import median
from typing import Final

import numpy as np

from kwiken.allocator.adaptation.watch import WINDOW_S
from kwiken.base.arrays import Floats

MEMORY: Final = 24  # windows that are looked at: two minutes
MIN_WINDOWS: Final = 3  # before anything is expected of a change
MOMENTS: Final = 2  # in each window, at which a change may begin
DOUBLED_AFTER_S: Final = (10.0, 15.0, 22.0, 33.0, 50.0, 75.0, 110.0, 170.0, 250.0)  # of rises
FALLS: Final = (0.05, 0.15, 0.3, 0.45, 0.6, 0.75, 0.87)  # factors of steps
RISES: Final = (1.15, 1.3, 1.5, 1.75, 2.0, 2.5, 3.5, 6.0, 20.0)  # of steps and bursts
BURST_S: Final = WINDOW_S  # longest time of a load that rises and falls at once
MEDIAN_OF_SQUARES: Final = 0.455  # of a standard normal deviate
PRIOR_WINDOWS: Final = 10.0  # weight of the belief that counts vary by chance alone
DOUBLES_AFTER_S: Final = 120.0  # of the present load at the earliest; a quicker rise is not taken to go on


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlookSettings:
    """What is believed of loads before anything is seen of one, and how careful the outlook is.

    Attributes:
        change: chance that a load has changed within the memory, above 0 and below 1.
        quantile: chance that the load to come is below the expected one, above 0 and below 1.
        half_life_s: age at which a window counts by half, seconds, above 0.
    """

    change: float = 0.1
    quantile: float = 0.8
    half_life_s: float = 60.0


@dataclass(frozen=True, eq=False)
class _Hypotheses:
    """Ways in which the rate may have run, as factors of the rate at first.

    Attributes:
        factors: (windows, hypotheses) mean factor over each window, the latest one last.
        logs: their logarithms.
        now: factor at the end of the last window.
        slope: factor that is added in each second from then on.
        prior: logarithm of the share that each has of all changes; the first hypothesis is that of none.
    """

    factors: Floats
    logs: Floats
    now: Floats
    slope: Floats
    prior: Floats


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
        """Load to prepare for, requests per second; 0 while too little was seen.

        Args:
            ahead_s: time from now to the moment that is prepared for, seconds, 0 or more.
        """
        if len(self._windows) < MIN_WINDOWS:
            return 0.0
        ways = _hypotheses(len(self._windows))
        counts, lasted_s = np.array(self._windows).T
        age_s = np.cumsum(lasted_s[::-1])[::-1] - lasted_s
        weights = 0.5 ** (age_s / self.settings.half_life_s)
        arrived = weights * counts
        total = float(arrived.sum())
        if total <= 0:
            return 0.0
        seconds = (weights * lasted_s) @ ways.factors  # as long as the first rate would take for the same
        first = total / seconds
        likelihood = (arrived @ ways.logs + total * np.log(first)) / self._variance_over_chance()
        chance = np.where(np.arange(len(first)) == 0, 1 - self.settings.change, self.settings.change)
        score = likelihood + ways.prior + np.log(chance)
        weight = np.exp(score - score.max())
        ahead = first * (ways.now + ways.slope * ahead_s)
        order = np.argsort(ahead)
        below = np.cumsum(weight[order])
        place = int(np.searchsorted(below, self.settings.quantile * below[-1]))
        expected = float(ahead[order][place])
        present = float(weight @ (first * ways.now) / below[-1])
        return min(expected, (1 + ahead_s / DOUBLES_AFTER_S) * present)

    def _variance_over_chance(self) -> float:
        """Variance of the counts over that of random requests, 1 or more."""
        squares = []
        for (before, before_s), (after, after_s) in itertools.pairwise(self._windows):
            by_chance = (before + after) / (before_s + after_s) * (1 / before_s + 1 / after_s)
            if by_chance > 0:
                squares.append((after / after_s - before / before_s) ** 2 / by_chance)
        seen = median(squares) / MEDIAN_OF_SQUARES  # there is one at least, since requests came
        return max(1.0, (len(squares) * seen + PRIOR_WINDOWS) / (len(squares) + PRIOR_WINDOWS))


@cache
def _hypotheses(windows: int) -> _Hypotheses:
    """Hypotheses for a number of windows of the usual length."""
    # Between two moments a factor is constant or linear: its value in the middle is its mean.
    at_s = (np.arange(windows * MOMENTS) + 0.5) * WINDOW_S / MOMENTS
    changed_s = np.arange(1, windows * MOMENTS) * WINDOW_S / MOMENTS
    since_s = np.maximum(0.0, at_s[:, None] - changed_s)
    lasted_s = windows * WINDOW_S - changed_s
    factors, now, slope = [np.ones((len(at_s), 1))], [np.ones(1)], [np.zeros(1)]
    for doubled_s in DOUBLED_AFTER_S:
        factors.append(1 + since_s / doubled_s)
        now.append(1 + lasted_s / doubled_s)
        slope.append(np.full(len(changed_s), 1 / doubled_s))
    steps = (*FALLS, *RISES)
    for step in steps:
        factors.append(np.where(since_s > 0, step, 1.0))
        now.append(np.full(len(changed_s), step))
        slope.append(np.zeros(len(changed_s)))
    for step in RISES:
        factors.append(np.where((since_s > 0) & (since_s <= BURST_S), step, 1.0))
        now.append(np.ones(len(changed_s)))
        slope.append(np.zeros(len(changed_s)))
    mean = np.mean(np.split(np.concatenate(factors, axis=1), windows), axis=1)
    kinds = (len(DOUBLED_AFTER_S), len(steps), len(RISES))
    counts = [kind * len(changed_s) for kind in kinds]
    prior = [np.zeros(1), *(np.full(count, -math.log(len(kinds) * count)) for count in counts)]
    return _Hypotheses(mean, np.log(mean), np.concatenate(now), np.concatenate(slope), np.concatenate(prior))
