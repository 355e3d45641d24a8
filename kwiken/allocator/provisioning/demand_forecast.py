"""Forecast of demand for a reservation: the loads to expect over a term, from a curve's level, line or step.

The days of the curve decide which of four shapes the future is taken to have. The weekly pattern is taken out
of the daily means first, where two weeks or more are there:

1. Too short to tell, or constant: all of the history, as it was.
2. A line explains the daily means and has not bent: the line goes on, damped, with the loads about the line.
3. One step explains the daily means: the history since the step.
4. Anything else drifts: recent loads weigh more, by half for each quarter of the history.

The constants were chosen on drawn curves and on windows of a public trace, before any comparison was run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from kwiken.allocator.provisioning.load_curve import LoadCurve
from kwiken.base.arrays import Floats

MIN_DAYS: Final = 6  # of a history, to look for a line or a step
DAYS_PER_WEEK: Final = 7
EXPLAINED: Final = 0.7  # least share of the variance of daily means that a line or a step has to explain
DAMPING: Final = 0.5  # share of a line's slope that is taken to go on
MAX_CHANGE: Final = 0.15  # of a line over the term, as a share of the mean load
UNBENT: Final = 0.7  # least slope of the last third of the days, as a share of the whole line's
MIN_DAYS_OF_SLOPE: Final = 3
HALF_LIFE: Final = 0.25  # of the weight of a load, as a share of the history's length
MAX_DAYS: Final = 400  # of a history that are looked at
MAX_AROUND: Final = 20_000  # loads about a line; of more, evenly many are taken
LEVELS: Final = 40  # points of the line that stand for the term
MIN_DAYS_OF_LEVEL: Final = 2  # on each side of a step


class DemandShape(StrEnum):
    """DemandShape of the demand that is expected.

    Attributes:
        STEADY: as all of the history.
        LINE: a line that goes on.
        STEP: as since the step.
        DRIFT: as the history, recent loads more than others.
    """

    STEADY = "steady"
    LINE = "line"
    STEP = "step"
    DRIFT = "drift"


@dataclass(frozen=True, eq=False)
class ExpectedDemand:
    """Loads to expect over a term, each with its weight.

    Attributes:
        cores: (m,) number of cores asked for.
        tolerant: (m,) number of those cores whose work may be interrupted.
        weights: (m,) weight of each load, of sum 1.
        reason: why this shape was taken, as one phrase.
    """

    shape: DemandShape
    cores: Floats
    tolerant: Floats
    weights: Floats
    reason: str


def expected_demand(load: LoadCurve, horizon_s: float | None = None) -> ExpectedDemand:
    """Loads to expect after a history.

    Args:
        load: history that the demand is expected from.
        horizon_s: time that the reservation is to pay off in, seconds; None for as long as the history.
    """
    per_day = load.steps_per_day
    load = load.part(max(0, len(load.cores) - MAX_DAYS * per_day), len(load.cores))
    days = len(load.cores) // per_day
    if days < MIN_DAYS:
        return _as_it_was(load, f"{load.hours / 24:.3g} days are too few to see a line or a step")
    daily = load.cores[len(load.cores) - days * per_day :].reshape(days, per_day).mean(axis=1)
    level: Floats = _without_week(daily)
    around = float(((level - level.mean()) ** 2).sum())
    if around <= 1e-12 * float((level**2).sum()):
        return _as_it_was(load, "the daily means do not change")
    at = np.arange(days, dtype=np.float64)
    line = float(((level - np.polyval(np.polyfit(at, level, 1), at)) ** 2).sum())
    step, since = _step(level)
    is_line = line <= (1 - EXPLAINED) * around and line <= step
    if is_line and not _has_bent(level):
        return _line(load, daily, horizon_s, 1 - line / around)
    if not is_line and step <= (1 - EXPLAINED) * around:
        kept = load.part(len(load.cores) - (days - since) * per_day, len(load.cores))
        steady = _as_it_was(
            kept, f"a step {days - since} days ago explains {1 - step / around:.0%} of the days"
        )
        return ExpectedDemand(DemandShape.STEP, steady.cores, steady.tolerant, steady.weights, steady.reason)
    ages = np.arange(len(load.cores))[::-1] / (HALF_LIFE * len(load.cores))
    weights = 0.5**ages
    return ExpectedDemand(
        DemandShape.DRIFT,
        load.cores,
        load.tolerant,
        weights / weights.sum(),
        "the line through the days has bent, so recent loads weigh more"
        if is_line
        else f"neither a line nor a step explains {EXPLAINED:.0%} of the days, so recent loads weigh more",
    )


def _as_it_was(load: LoadCurve, reason: str) -> ExpectedDemand:
    count = len(load.cores)
    return ExpectedDemand(DemandShape.STEADY, load.cores, load.tolerant, np.full(count, 1 / count), reason)


def _without_week(daily: Floats) -> Floats:
    """Daily means less the pattern of the week, which needs two weeks to be seen."""
    days = len(daily)
    if days < 2 * DAYS_PER_WEEK:
        return daily
    at = np.arange(days)
    slope = float(np.median((daily[DAYS_PER_WEEK:] - daily[:-DAYS_PER_WEEK]) / DAYS_PER_WEEK))
    flat = daily - slope * at
    pattern = np.array([np.median(flat[at % DAYS_PER_WEEK == day]) for day in range(DAYS_PER_WEEK)])
    level: Floats = daily - (pattern - pattern.mean())[at % DAYS_PER_WEEK]
    return level


def _step(level: Floats) -> tuple[float, int]:
    """Squares left by the best single step, and the day it happened on."""
    best, since = np.inf, 0
    for day in range(MIN_DAYS_OF_LEVEL, len(level) - MIN_DAYS_OF_LEVEL + 1):
        left = sum(float(((side - side.mean()) ** 2).sum()) for side in (level[:day], level[day:]))
        if left < best:
            best, since = left, day
    return best, since


def _slope(daily: Floats) -> float:
    """Median slope of all pairs of days (Theil and Sen), cores a day."""
    first, later = np.triu_indices(len(daily), 1)
    return float(np.median((daily[later] - daily[first]) / (later - first)))


def _has_bent(level: Floats) -> bool:
    """Whether the last third of the days rises or falls by much less than all of them."""
    whole, last = _slope(level), _slope(level[-max(MIN_DAYS_OF_SLOPE, len(level) // 3) :])
    return last / whole < UNBENT if whole else True


def _line(load: LoadCurve, daily: Floats, horizon_s: float | None, explained: float) -> ExpectedDemand:
    """Loads about a line that goes on, damped."""
    count = len(load.cores)
    slope = _slope(daily) / load.steps_per_day
    at = np.arange(count, dtype=np.float64)
    base = float(np.median(load.cores - slope * at)) + slope * (count - 1)
    around = load.cores - (base - slope * (count - 1) + slope * at)
    steps = max(1.0, (load.hours * 3600.0 if horizon_s is None else horizon_s) / load.step_s)
    ahead = DAMPING * slope * np.linspace(1.0, steps, LEVELS)
    most = MAX_CHANGE * load.mean
    share = np.divide(load.tolerant, load.cores, out=np.zeros(count), where=load.cores > 0)
    kept = slice(None, None, -(-count // MAX_AROUND))
    around, share = around[kept], share[kept]
    cores = np.maximum(0.0, base + np.clip(ahead, -most, most)[:, None] + around[None, :]).ravel()
    per_day = slope * load.steps_per_day
    return ExpectedDemand(
        DemandShape.LINE,
        cores,
        cores * np.tile(share, LEVELS),
        np.full(len(cores), 1 / len(cores)),
        f"a line of {per_day:+.3g} cores a day explains {explained:.0%} of the days",
    )
