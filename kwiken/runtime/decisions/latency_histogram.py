"""Latency histograms on a fixed logarithmic grid, of all and of recent samples; O(1) per sample, no NumPy."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import frexp

PER_OCTAVE = 16  # buckets per factor of 2; at most 1/16 = 6% wide, so quantiles are right to 3%
LOW = -20  # exponent of the lowest octave, which ends at 2**-20 s, about 1 us
HIGH = 12  # exponent of the highest octave, which ends at 2**12 s, more than an hour
_CELLS = (HIGH - LOW + 1) * PER_OCTAVE
_SHIFT = -LOW * PER_OCTAVE - PER_OCTAVE


class LatencyHistogram:
    """Histogram of latencies in seconds; latencies beyond the grid count in its first or last bucket."""

    __slots__ = ("cells", "count")

    def __init__(self) -> None:
        self.cells = [0] * _CELLS
        self.count = 0

    def add(self, seconds: float) -> None:
        """Count one latency, in seconds."""
        mantissa, exponent = frexp(seconds)  # seconds = mantissa * 2**exponent, mantissa from 0.5 to 1
        cell = exponent * PER_OCTAVE + int(mantissa * (2 * PER_OCTAVE)) + _SHIFT
        self.count += 1
        if 0 <= cell < _CELLS and seconds > 0:
            self.cells[cell] += 1
        else:
            self.cells[0 if cell < 0 or seconds <= 0 else -1] += 1

    def quantile(self, share: float) -> float | None:
        """Latency that a share of the samples, 0 to 1, do not exceed, in seconds; None without samples."""
        return _quantile(self.cells, self.count, share)


class RecentLatencies:
    """Latencies that a histogram counted in the last seconds, by the difference to what it held before.

    Nothing is added to the work of a sample: somebody calls `step` at intervals, which takes a copy.

    Args:
        histogram: histogram that counts all latencies.
        steps: largest number of intervals that count, 1 or more.
    """

    __slots__ = ("_before", "_histogram")

    def __init__(self, histogram: LatencyHistogram, steps: int) -> None:
        self._histogram = histogram
        self._before: deque[tuple[float, int, list[int]]] = deque(maxlen=steps)

    def step(self, now: float) -> None:
        """Begin another interval at this moment, seconds, and forget the oldest if there are too many."""
        self._before.append((now, self._histogram.count, self._histogram.cells.copy()))

    @property
    def count(self) -> int:
        """Number of samples in the intervals; 0 before the first."""
        return self._histogram.count - self._before[0][1] if self._before else 0

    def rate_per_s(self, now: float) -> float | None:
        """Samples a second in the intervals up to now, seconds; None before the first interval."""
        over_s = now - self._before[0][0] if self._before else 0.0
        return self.count / over_s if over_s > 0 else None

    def quantiles(self, shares: Sequence[float]) -> list[float | None]:
        """Latencies that shares of the samples, 0 to 1, do not exceed, in seconds; None without samples."""
        if not self._before:
            return [None for _ in shares]
        _, count, cells = self._before[0]
        recent = [now - before for now, before in zip(self._histogram.cells, cells, strict=True)]
        return [_quantile(recent, self._histogram.count - count, share) for share in shares]


def _quantile(cells: Sequence[int], samples: int, share: float) -> float | None:
    wanted = share * samples
    seen = 0
    for cell, count in enumerate(cells):
        seen += count
        if count and seen >= wanted:
            octave, step = divmod(cell - _SHIFT - PER_OCTAVE, PER_OCTAVE)
            return float((PER_OCTAVE + step + 0.5) / (2 * PER_OCTAVE) * 2.0**octave)
    return None
