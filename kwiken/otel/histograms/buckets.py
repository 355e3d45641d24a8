"""Latencies from histograms: buckets of any kind, and samples spread over the buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np

from kwiken.base.arrays import Bools, Floats

_FIRST_BUCKET_RATIO = 2.0  # of the bounds of a bucket that has no lower one


@dataclass(frozen=True, slots=True)
class Buckets:
    """Counts of latencies by bucket, ascending and without gaps.

    Attributes:
        low_ms: (k,) lower bounds, milliseconds, above 0.
        high_ms: (k,) upper bounds, milliseconds; infinite for the last one where there is no bound.
        counts: (k,) numbers of latencies, 0 or more; estimates of increases need not be whole.
    """

    low_ms: Floats
    high_ms: Floats
    counts: Floats

    @property
    def total(self) -> float:
        """Number of latencies."""
        return float(self.counts.sum())

    @property
    def mean_ms(self) -> float:
        """Mean latency as the bounds say it, milliseconds; 0 without any latency."""
        high = np.where(np.isinf(self.high_ms), self.low_ms, self.high_ms)
        return float((np.sqrt(self.low_ms * high) * self.counts).sum() / max(self.total, 1e-300))

    def spread(self, size: int) -> tuple[Floats, Bools]:
        """Evenly spaced quantiles.

        Args:
            size: number of quantiles, 1 or more.

        Returns:
            (size,) latencies, milliseconds, ascending; within a bucket they are spaced evenly in their
            logarithm. (size,) True for those above the last bound, which take at least that long.
        """
        upto = np.concatenate(([0.0], np.cumsum(self.counts)))
        wanted = (np.arange(size) + 0.5) / size * upto[-1]
        place = np.clip(np.searchsorted(upto, wanted, side="right") - 1, 0, len(self.counts) - 1)
        inside = np.clip((wanted - upto[place]) / np.maximum(self.counts[place], 1e-300), 0.0, 1.0)
        low, high = self.low_ms[place], self.high_ms[place]
        open_ended = np.isinf(high)
        ratio = np.where(open_ended, 1.0, high / low)
        return low * ratio**inside, open_ended

    def quantile_ms(self, share: float) -> float:
        """Latency that a share of the calls, 0 to 1, do not exceed, milliseconds."""
        upto = np.cumsum(self.counts)
        place = min(int(np.searchsorted(upto, share * upto[-1])), len(upto) - 1)
        before = upto[place] - self.counts[place]
        inside = min(1.0, max(0.0, float((share * upto[-1] - before) / max(self.counts[place], 1e-300))))
        low, high = float(self.low_ms[place]), float(self.high_ms[place])
        return low if high == inf else low * (high / low) ** inside


def from_classic(cumulative: Mapping[float, float]) -> Buckets | None:
    """Buckets of a classic histogram; None without any latency.

    Args:
        cumulative: number of latencies up to each bound, seconds, as increases over a window. Several
            instances and resets make them fall a little from bound to bound, which counts as no change.
    """
    bounds = np.array(sorted(bound for bound in cumulative if bound > 0))
    upto = np.maximum.accumulate([max(0.0, cumulative[bound]) for bound in bounds.tolist()] or [0.0])
    if not upto[-1] > 0:
        return None
    first = bounds[0] / _FIRST_BUCKET_RATIO
    low = np.concatenate(([first], bounds[:-1]))
    return Buckets(low * 1000, bounds * 1000, np.diff(upto, prepend=0.0))


def from_native(buckets: Iterable[tuple[float, float, float]]) -> Buckets | None:
    """Buckets of native histograms, of several instances too; None without any latency.

    Args:
        buckets: lower bound, upper bound, seconds, and count of each bucket; buckets with the same bounds are
            added.
    """
    sums: dict[tuple[float, float], float] = defaultdict(float)
    for lower, upper, count in buckets:
        if upper > 0 and count > 0:
            sums[lower, upper] += count
    if not sums:
        return None
    bounds = np.array(sorted(sums))
    high = bounds[:, 1]
    low = np.where(bounds[:, 0] > 0, bounds[:, 0], high / _FIRST_BUCKET_RATIO)
    return Buckets(low * 1000, high * 1000, np.array([sums[key] for key in sorted(sums)]))
