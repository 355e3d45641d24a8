"""Latency histogram with logarithmic buckets on a fixed grid: constant memory, O(1) per sample, no NumPy."""

from __future__ import annotations

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

    def halve(self) -> None:
        """Let every latency so far count half; odd numbers are rounded up, so that the tail stays."""
        self.cells = [(count + 1) // 2 for count in self.cells]
        self.count = sum(self.cells)

    def quantile(self, share: float) -> float | None:
        """Latency that a share of the samples, 0 to 1, do not exceed, in seconds; None without samples."""
        wanted = share * self.count
        seen = 0
        for cell, count in enumerate(self.cells):
            seen += count
            if count and seen >= wanted:
                octave, step = divmod(cell - _SHIFT - PER_OCTAVE, PER_OCTAVE)
                return float((PER_OCTAVE + step + 0.5) / (2 * PER_OCTAVE) * 2.0**octave)
        return None
