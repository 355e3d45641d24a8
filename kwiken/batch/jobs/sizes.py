"""Input size of a recurring job, forecast from earlier runs at the same hour of the same kind of day.

Two rules stand beside each other. The published one is the mean of those runs. The other corrects it by how
the last runs, of any hour, differed from theirs: it follows input that grows. Earlier runs, each held out in
turn, decide between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError

DAY_S: Final = 86_400.0
EPOCH_WEEKDAY: Final = 3  # 1 January 1970 was a Thursday, with Monday as 0
SATURDAY: Final = 5
WEEK: Final = 7
NEAR_S: Final = 1_800.0  # clock times that count as the same, half an hour either side
RECENT: Final = 5  # runs that correct the mean
MIN_HELD_OUT: Final = 3  # runs by whose errors a rule is chosen
MAX_RUNS: Final = 2_000  # the latest that are looked at
MAX_FACTOR: Final = 1e6  # by which a run may be above or below its mean; beyond, nothing is learned from it

SizeRule = Literal["mean", "corrected"]


@dataclass(frozen=True)
class SizeForecast:
    """Forecast of a size, and why this rule made it.

    Attributes:
        size: forecast, in the unit of the sizes.
        rule: `mean` for the published rule, `corrected` for the mean times what the last runs were of theirs.
        error: mean relative error of that rule over the runs that were held out; None for too few of them.
        other_error: the same of the other rule.
        held_out: number of those runs.
    """

    size: float
    rule: SizeRule
    error: float | None
    other_error: float | None
    held_out: int


def predict_size(at_s: Sequence[float], size: Sequence[float], when_s: float) -> float:
    """Mean size of earlier runs at the same time of day, of weekdays or of weekends as the day is.

    Args:
        at_s: times of submission of earlier runs, seconds since 1970.
        size: their sizes, in any unit.
        when_s: time of the run that is forecast, seconds since 1970.

    Raises:
        InputError: no earlier run at that time of day on such a day.
    """
    times, sizes = np.asarray(at_s, dtype=np.float64), np.asarray(size, dtype=np.float64)
    counts = _alike(times, when_s)
    if not counts.any():
        raise InputError("no earlier run at this time of day on such a day, so its size cannot be forecast")
    return float(sizes[counts].mean())


def forecast_size(at_s: Sequence[float], size: Sequence[float], when_s: float) -> SizeForecast:
    """Forecast the size of a run by the rule that errs less on the earlier runs.

    Args:
        at_s: times of submission of earlier runs, seconds since 1970.
        size: their sizes, in any unit.
        when_s: time of the run that is forecast, seconds since 1970.

    Raises:
        InputError: no earlier run at that time of day on such a day.
    """
    mean = predict_size(at_s, size, when_s)
    times, sizes = np.asarray(at_s, dtype=np.float64), np.asarray(size, dtype=np.float64)
    order = np.argsort(times, kind="stable")
    order = order[times[order] < when_s][-MAX_RUNS:]
    times, sizes = times[order], sizes[order]
    means = np.full(times.size, np.nan)
    for place, at in enumerate(times):
        counts = _alike(times, float(at))
        if counts.any():
            means[place] = sizes[counts].mean()
    judged = (sizes > 0) & (sizes >= means / MAX_FACTOR) & (means > 0) & (means >= sizes / MAX_FACTOR)
    means, sizes = means[judged], sizes[judged]
    logs = np.log(sizes / means)
    corrected = np.array([_correction(logs[:place]) for place in range(logs.size)]) * means
    if sizes.size < MIN_HELD_OUT:
        return SizeForecast(mean, "mean", None, None, int(sizes.size))
    by_mean, by_correction = (float(np.mean(np.abs(one - sizes) / sizes)) for one in (means, corrected))
    if by_correction < by_mean:
        size_now = mean * _correction(logs)
        return SizeForecast(size_now, "corrected", by_correction, by_mean, int(sizes.size))
    return SizeForecast(mean, "mean", by_mean, by_correction, int(sizes.size))


def _correction(logs: Floats) -> float:
    """Size over the mean of its time of day, over the last runs; 1 without any."""
    return float(np.exp(logs[-RECENT:].mean())) if logs.size else 1.0


def _alike(times: Floats, when_s: float) -> Bools:
    """Which times are earlier, at the same time of day, of the same kind of day."""
    apart = np.abs((times - when_s + DAY_S / 2) % DAY_S - DAY_S / 2)
    counts = (times < when_s) & (apart <= NEAR_S)
    return np.asarray(counts & (is_weekend(times) == is_weekend(np.array([when_s]))))


def is_weekend(times_s: Floats) -> Bools:
    """Whether each time lies on a Saturday or Sunday, UTC.

    Args:
        times_s: seconds since 1970.
    """
    return np.asarray((np.floor(times_s / DAY_S) + EPOCH_WEEKDAY) % WEEK >= SATURDAY)
