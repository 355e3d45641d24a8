"""Latency histograms, of all and of recent samples: constant memory, O(1) per sample, no NumPy.

The buckets are those of OpenTelemetry's exponential histogram at scale 4, and of Prometheus's native
histogram with schema 4. So metrics show what the runtime itself decides by, without a second count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import ceil, log2
from typing import NamedTuple

SCALE = 4
PER_OCTAVE = 1 << SCALE  # buckets per factor of 2; each 4.4% wide, so quantiles are right to 2.2%
LOW = -21  # the lowest bucket begins at 2**-21 s, about 0.5 us
HIGH = 12  # the highest bucket ends at 2**12 s, more than an hour
FIRST_INDEX = LOW * PER_OCTAVE  # bucket i holds latencies from above 2**(i/16) to 2**((i+1)/16) seconds
_CELLS = (HIGH - LOW) * PER_OCTAVE
_SHIFT = -1 - FIRST_INDEX
_CELLS_PER_TRACED = PER_OCTAVE // 4  # buckets that share one traced latency


class TracedLatency(NamedTuple):
    """One latency whose trace is kept: an exemplar of its bucket.

    Attributes:
        seconds: the latency, seconds.
        at_ns: time of the measurement, nanoseconds since 1970.
        trace_id: trace id, 128 bits.
        span_id: id of the span that took so long, 64 bits.
    """

    seconds: float
    at_ns: int
    trace_id: int
    span_id: int


class LatencyHistogram:
    """Histogram of latencies in seconds; latencies beyond the grid count in its first or last bucket.

    Attributes:
        cells: number of latencies by bucket, the lowest first.
        count: number of all latencies.
        total_s: sum of all latencies, seconds.
        traced: the last traced latency of each group of buckets, a quarter of an octave wide.
    """

    __slots__ = ("cells", "count", "total_s", "traced")

    def __init__(self) -> None:
        self.cells = [0] * _CELLS
        self.count = 0
        self.total_s = 0.0
        self.traced: dict[int, TracedLatency] = {}

    def add(self, seconds: float) -> None:
        """Count one latency, in seconds."""
        self.count += 1
        if seconds > 0:
            self.total_s += seconds
            cell = ceil(log2(seconds) * PER_OCTAVE) + _SHIFT
            self.cells[cell if 0 <= cell < _CELLS else 0 if cell < 0 else -1] += 1
        else:
            self.cells[0] += 1

    def trace(self, latency: TracedLatency) -> None:
        """Keep a latency, already counted, as the example of its buckets."""
        if latency.seconds > 0:
            self.traced[ceil(log2(latency.seconds) * (PER_OCTAVE // _CELLS_PER_TRACED))] = latency

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
            return float(2.0 ** ((cell + FIRST_INDEX + 0.5) / PER_OCTAVE))
    return None
