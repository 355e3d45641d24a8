"""Use of processors and memory by tasks over time, and the statistics that packing draws from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints

MEMORY_RESERVE: Final = 1.05  # times the most that was seen: the least memory that a task is given
PERCENTILE: Final = 99.0
MIN_SAMPLES: Final = 8  # of a task; with fewer its use says nothing, and the request is kept


@dataclass(frozen=True, eq=False)
class UsageSeries:
    """Use of each task at each time.

    Attributes:
        times_s: (s,) times of the samples, seconds since 1970 or since the first, ascending.
        cores: (t, s) number of cores in use; NaN where a task has no sample.
        memory_gb: (t, s) memory in use, in units of GB; NaN where a task has no sample.
    """

    times_s: Floats
    cores: Floats
    memory_gb: Floats

    def part(self, chosen: Bools | Ints | slice) -> UsageSeries:
        """The samples at some of the times."""
        return UsageSeries(self.times_s[chosen], self.cores[:, chosen], self.memory_gb[:, chosen])


@dataclass(frozen=True, eq=False)
class Use:
    """Statistics of each task's use.

    Attributes:
        mean: (t,) mean number of cores in use.
        variance: (t,) variance of the number of cores in use, that of its level among it.
        p99: (t,) 99th percentile of the number of cores in use, by nearest rank.
        memory_gb: (t,) memory to keep for the task, in units of GB: the larger of its 99th percentile and
            1.05 times the most that was seen.
        known: (t,) whether the task's use was known; where it was not, the request stands for the use.
    """

    mean: Floats
    variance: Floats
    p99: Floats
    memory_gb: Floats
    known: Bools


def nearest_rank(samples: Floats, percentile: float = PERCENTILE) -> Floats:
    """Percentile of each row by nearest rank; samples that are NaN are left out.

    Args:
        samples: (t, s) samples.
        percentile: percentile to take, above 0 and at most 100.

    Returns:
        (t,) a sample of each row; NaN for a row that has none.
    """
    ordered = np.sort(samples, axis=1)  # NaN last
    counts = np.sum(~np.isnan(samples), axis=1)
    ranks = np.ceil(percentile / 100 * counts - 1e-9).astype(np.int64)
    places = np.clip(ranks - 1, 0, max(samples.shape[1] - 1, 0))
    return np.asarray(ordered[np.arange(len(samples)), places], dtype=np.float64)


def lasting_variance(rows: Floats) -> Floats:
    """Variance of use, and of its level: half the square by which the means of the two halves differ.

    A task whose level has moved within the samples will move again, and the variance within them tells too
    little of that.

    Args:
        rows: (t, s) samples; NaN where one is missing.
    """
    half = rows.shape[1] // 2
    counts = [np.maximum(np.sum(~np.isnan(part), axis=1), 1) for part in (rows[:, :half], rows[:, half:])]
    first, second = (
        np.nansum(part, axis=1) / count
        for part, count in zip((rows[:, :half], rows[:, half:]), counts, strict=True)
    )
    moved = np.where(np.isnan(rows).any(axis=1), 0.0, (first - second) ** 2 / 2)
    return np.asarray(np.nanvar(rows, axis=1) + moved, dtype=np.float64)


def use_of(series: UsageSeries, cores: Floats, memory_gb: Floats) -> Use:
    """Statistics of use, with the request where a task has fewer than eight samples.

    Args:
        cores: (t,) number of cores that each task requests.
        memory_gb: (t,) memory that each task requests, in units of GB.
    """
    known = np.sum(~np.isnan(series.cores), axis=1) >= MIN_SAMPLES
    mean, variance, p99 = cores.copy(), np.zeros(len(cores)), cores.copy()
    if known.any():
        rows = series.cores[known]
        mean[known], variance[known] = np.nanmean(rows, axis=1), lasting_variance(rows)
        p99[known] = nearest_rank(rows)
    memory = memory_gb.copy()
    seen = np.sum(~np.isnan(series.memory_gb), axis=1) >= MIN_SAMPLES
    if seen.any():
        rows = series.memory_gb[seen]
        memory[seen] = np.maximum(nearest_rank(rows), MEMORY_RESERVE * np.nanmax(rows, axis=1))
    return Use(mean=mean, variance=variance, p99=p99, memory_gb=memory, known=known)


def filled_cores(series: UsageSeries, use: Use) -> Floats:
    """Samples of cores with the mean of the task's use, or its request, where a sample is missing."""
    return np.where(np.isnan(series.cores), use.mean[:, None], series.cores)


def gaps(times_s: Floats) -> int:
    """Number of steps of a series that are over one and a half times the usual one."""
    steps = np.diff(times_s)
    if not steps.size:
        return 0
    return (
        int(np.sum(steps > 1.5 * float(np.median(steps)))) if not math.isnan(float(np.median(steps))) else 0
    )
