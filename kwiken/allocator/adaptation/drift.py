"""Drift of one workload: tells from the work of its requests that its prediction no longer holds.

A p99 says that a target is missed once it is missed. The processor time of a request says earlier that a
replica serves fewer requests than predicted: other inputs, a new version, a neighbour in the caches. It is
measured in operation anyway, so that every workload can be watched all the time; Quasar injects contention
into a fifth of the workloads every ten minutes instead (section 3.8).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median, variance
from typing import Final

MIN_REQUESTS_FOR_WORK: Final = 20  # in a window, for a mean
WINDOWS_TO_LEARN: Final = 12  # of the work that the prediction is taken to be about: a minute
WINDOWS_TO_COMPARE: Final = 7  # of the work of now; odd, so that their median leaps with the work
MIN_CHANGE: Final = 0.1  # log units; a smaller change is not worth an action
NOISE_BOUND: Final = 5.0  # standard errors of a difference of medians
MEDIAN_ERROR: Final = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean
MIN_BELIEF: Final = 0.125  # share of a prediction; below it the prediction is wrong in kind


@dataclass(slots=True)
class WorkDrift:
    """State of the watch over the work of one workload's requests.

    Attributes:
        belief: share of the predicted performance that replicas are taken to have, at most 1. More than was
            predicted is never believed, since work by processors does not tell of waits for other things.
    """

    belief: float = 1.0
    _classes: frozenset[str] = frozenset()
    _learned: list[float] = field(default_factory=list)  # log work, by window
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOWS_TO_COMPARE))

    def observe(self, work_ms: float | None, requests: int, classes: Iterable[str], covered: float) -> bool:
        """Take account of a window; returns whether the belief was revised.

        There are five cases:

        1. Work is not known, or requests are too few for a mean: the window is left out.
        2. Replicas stand on other classes of nodes than before, where the same request is other work: the
           work is learned anew, and the belief stays.
        3. The work is still being learned, or too few windows have followed.
        4. The change since the last revision is within what chance explains, or what the headroom is for, or
           not worth an action.
        5. The belief is revised. It rises again too, up to 1.

        Args:
            work_ms: processor time of a request, all of its calls and copies together, milliseconds; None if
                not known.
            requests: number of requests that it is the mean of, 0 or more.
            classes: classes of the nodes that the replicas stand on.
            covered: change that the headroom covers, log units, 0 or more.
        """
        if not work_ms or requests < MIN_REQUESTS_FOR_WORK:
            return False
        if (there := frozenset(classes)) != self._classes:
            self._classes = there
            self._learned.clear()
            self._recent.clear()
        if len(self._learned) < WINDOWS_TO_LEARN:
            self._learned.append(math.log(work_ms) + math.log(self.belief))
            return False
        self._recent.append(math.log(work_ms))
        if len(self._recent) < WINDOWS_TO_COMPARE:
            return False
        change = self._change()
        if abs(change + math.log(self.belief)) <= max(MIN_CHANGE, covered, self._noise()):
            return False
        before, self.belief = self.belief, min(1.0, max(MIN_BELIEF, math.exp(-change)))
        return self.belief != before

    @property
    def work_ms(self) -> tuple[float, float]:
        """Processor time of a request when it was learned, and over the last windows, milliseconds."""
        return math.exp(median(self._learned)), math.exp(median(self._recent))

    def _change(self) -> float:
        return median(self._recent) - median(self._learned)

    def _noise(self) -> float:
        """Change that chance explains, by how windows differed while the work was learned, log units."""
        windows = 1 / len(self._learned) + 1 / len(self._recent)
        return NOISE_BOUND * MEDIAN_ERROR * math.sqrt(variance(self._learned) * windows)
