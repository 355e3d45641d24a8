"""Early stop of a sample: the same guarantee from fewer draws, by what earlier samples of the job showed.

Candidates are drawn one by one. Each quality that is seen goes into a window, whose upper quantile is the
threshold: the first candidate at or above the threshold is taken. While the window is short, and when no draw
reaches the threshold, the whole sample of the guarantee is drawn. The threshold is stricter than the promise,
so that the promise is kept although a window is a sample too. The mean number of draws is about the inverse
of the share that the threshold leaves.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from math import ceil
from typing import Final

from kwiken.allocator.sampling.sample_size import Guarantee

WINDOW: Final = 1000  # qualities that are remembered
MIN_SEEN: Final = 200  # qualities from which on the threshold is used
# Share of the candidates above the threshold, as a share of that which the guarantee allows. The quantile of
# a window of 1,000 is off by at most 0.04 in 999 of 1,000 windows, and half of a fifth leaves 0.1.
STRICTNESS: Final = 0.5


class EarlyStop:
    """Sequential choice among draws for jobs of one kind.

    Args:
        guarantee: share of the candidates and probability that the complete sample would promise.
    """

    def __init__(self, guarantee: Guarantee) -> None:
        self._draws = guarantee.draws
        self._above = STRICTNESS * (1.0 - guarantee.quality)
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    @property
    def threshold(self) -> float | None:
        """Quality from which on a candidate is taken at once; None while too few were seen."""
        count = len(self._sorted)
        if count < MIN_SEEN:
            return None
        return self._sorted[count - max(1, ceil(self._above * count))]

    def choose(self, qualities: Iterable[float]) -> tuple[int, int]:
        """Draw candidates until one is good enough, or the sample is complete.

        Args:
            qualities: qualities of candidates in the order of their draws, a higher one is better; at least
                one, and as many as the guarantee needs where the population has them.

        Returns:
            Position of the chosen candidate, and the number of candidates that were drawn.
        """
        threshold = self.threshold
        best, place, drawn = float("-inf"), 0, 0
        for quality in qualities:
            if quality > best:
                best, place = quality, drawn
            drawn += 1
            self._remember(quality)
            if drawn >= self._draws or (threshold is not None and quality >= threshold):
                break
        return place, drawn

    def _remember(self, quality: float) -> None:
        self._recent.append(quality)
        insort(self._sorted, quality)
        if len(self._recent) > WINDOW:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
