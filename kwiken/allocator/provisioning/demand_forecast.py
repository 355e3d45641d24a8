"""Forecast of demand for a reservation: the loads to expect over a term, from a curve's line or last level.

The days of the curve decide which of three shapes the future is taken to have. The weekly pattern is taken
out of the daily means first, where two weeks or more are there:

1. Too short to tell, or constant: all of the history, as it was.
2. A level that changes now and then: recent loads weigh more. A change of a day that the next day takes back
   is noise, and a change that stays is one of the level; the share of the two says how fast loads of the past
   lose their weight, as in exponential smoothing of a local level (Muth).
3. A line explains the daily means and has not bent: the level, and from there the line goes on. A fall goes
   on in full and a rise by a quarter: at the prices of today a reserved core that stands idle costs more than
   one that is lacking.

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
RISE_GOES_ON: Final = 0.25  # share of a line's slope that is taken to go on
FALL_GOES_ON: Final = 1.0
MAX_CHANGE: Final = 0.3  # of a line over the term, as a share of the mean load
UNBENT: Final = 0.7  # least slope of the last third of the days, as a share of the whole line's
MIN_DAYS_OF_SLOPE: Final = 3
LEAST_HALF_LIFE_DAYS: Final = 0.5  # of the weight of a load where every change stays
MAX_DAYS: Final = 400  # of a history that are looked at
MAX_LOADS: Final = 20_000  # of the level of a line; of more, evenly many are taken
LEAST_WEIGHT: Final = 1e-6  # of the heaviest load, from which on a load of the level of a line counts
LEVELS: Final = 40  # points of the line that stand for the term
MIN_DAYS_OF_LEVEL: Final = 2  # on each side of a step


class DemandShape(StrEnum):
    """Shape of the demand that is expected.

    Attributes:
        STEADY: as all of the history.
        LINE: a line that goes on.
        LEVEL: as the history, recent loads more than others.
    """

    STEADY = "steady"
    LINE = "line"
    LEVEL = "level"


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
    half_life_days = min(_half_life_days(level), float(days))
    recent = _recent(load, half_life_days)
    if line <= min((1 - EXPLAINED) * around, _left_by_step(level)) and not _has_bent(level):
        return _along(recent, load, _slope(daily), horizon_s, 1 - line / around)
    return recent


def _recent(load: LoadCurve, half_life_days: float) -> ExpectedDemand:
    """Loads of the history, whose weight halves with their age."""
    age_days = np.arange(len(load.cores))[::-1] // load.steps_per_day
    weights = 0.5 ** (age_days / half_life_days)
    return ExpectedDemand(
        DemandShape.LEVEL,
        load.cores,
        load.tolerant,
        weights / weights.sum(),
        f"the line through the days has bent or explains less than {EXPLAINED:.0%} of them; a load counts by "
        f"half after {half_life_days:.2g} days, by how many changes of the days stay",
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


def _left_by_step(level: Floats) -> float:
    """Squares left by the best single step."""
    return min(
        sum(float(((side - side.mean()) ** 2).sum()) for side in (level[:day], level[day:]))
        for day in range(MIN_DAYS_OF_LEVEL, len(level) - MIN_DAYS_OF_LEVEL + 1)
    )


def _half_life_days(level: Floats) -> float:
    """Half-life of the weights of days, by the gain of exponential smoothing that suits their changes."""
    changes = np.diff(level)
    noise = max(0.0, -float(np.mean(changes[1:] * changes[:-1])))  # that the next day takes back
    stays = max(0.0, float(np.mean(changes**2)) - 2 * noise)
    ratio = stays / noise if noise > 0 else np.inf
    if ratio <= 0:
        return np.inf
    # The root of gain**2 + ratio * gain = ratio, in a form that keeps its digits.
    gain = 2 / (1 + float(np.sqrt(1 + 4 / ratio)))
    return max(LEAST_HALF_LIFE_DAYS, -1 / float(np.log2(1 - gain))) if gain < 1 else LEAST_HALF_LIFE_DAYS


def _slope(daily: Floats) -> float:
    """Median slope of all pairs of days (Theil and Sen), cores a day."""
    first, later = np.triu_indices(len(daily), 1)
    return float(np.median((daily[later] - daily[first]) / (later - first)))


def _has_bent(level: Floats) -> bool:
    """Whether the last third of the days rises or falls by much less than all of them."""
    whole, last = _slope(level), _slope(level[-max(MIN_DAYS_OF_SLOPE, len(level) // 3) :])
    return last / whole < UNBENT if whole else True


def _along(
    recent: ExpectedDemand, load: LoadCurve, per_day: float, horizon_s: float | None, explained: float
) -> ExpectedDemand:
    """Recent loads moved along a line of some cores a day."""
    heavy = np.flatnonzero(recent.weights >= LEAST_WEIGHT * recent.weights.max())
    kept = heavy[:: -(-len(heavy) // MAX_LOADS)]
    cores, weights = recent.cores[kept], recent.weights[kept] / LEVELS
    share = np.divide(recent.tolerant[kept], cores, out=np.zeros(len(kept)), where=cores > 0)
    goes_on = RISE_GOES_ON if per_day > 0 else FALL_GOES_ON
    days = (
        max(1.0, (load.hours * 3600.0 if horizon_s is None else horizon_s) / load.step_s) / load.steps_per_day
    )
    most = MAX_CHANGE * load.mean
    change = np.clip(goes_on * per_day * np.linspace(0.0, days, LEVELS), -most, most)
    moved = np.maximum(0.0, cores[None, :] + change[:, None]).ravel()
    weights = np.tile(weights, LEVELS)
    return ExpectedDemand(
        DemandShape.LINE,
        moved,
        moved * np.tile(share, LEVELS),
        weights / weights.sum(),
        f"a line of {per_day:+.3g} cores a day explains {explained:.0%} of the days",
    )
