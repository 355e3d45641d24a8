"""Forecast of demand for a reservation: the loads to expect over a term, from the days of a curve.

The daily means, without their weekly pattern, are the level of the load. Three forecasts share the
weight, since two weeks do not tell a level that has changed from one that will come back:

1. The level goes on by one of many hypotheses, each a Gaussian process: it leaves its mean and comes back,
   within a day or within weeks; it stays where it is until it moves again; or it goes on along a line that
   fades. Each is weighed by how well it explains the days (its marginal likelihood; mean and scale are
   integrated out), and gives the spread of the levels ahead, wider the farther they are. To each level
   belong the hours of the days, as they were in ratio to their level.
2. Recent loads go on. A change of a day that the next day takes back is noise, and a change
   that stays is one of the level; the share of the two says how fast loads of the past lose their weight,
   as in exponential smoothing of a local level (Muth).
3. All of the history, as it was.

Times of the hypotheses are counted in days. In a history of more than 40 days they are counted in blocks of
as few days as leave no more than 40 blocks: a year is looked at in blocks of ten days. The constants were
chosen on drawn curves, before any comparison was run.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from scipy.special import stdtrit

from kwiken.allocator.provisioning.load_curve import LoadCurve
from kwiken.base.arrays import Floats

MIN_DAYS: Final = 6  # of a history, to tell one hypothesis from another
DAYS_PER_WEEK: Final = 7
RECENT_DAYS: Final = 7  # whose loads decide where a history is too short to look ahead
MAX_DAYS: Final = 400  # of a history that are looked at
MAX_BLOCKS: Final = 40  # of days, that the level is looked at in
RETURNS: Final = (0.7, 1.5, 3.0, 6.0, 12.0, 24.0)  # blocks after which 1/e of a departure is left
STAYS: Final = 400.0  # the same, of a level that does not come back
NOISE: Final = (0.01, 0.1, 0.5, 2.0)  # variance of a single block, over that of the level
LINES: Final = ((0.0, 2 / 3), (0.1, 1 / 3))  # variance of a block's slope over that of the level; belief
LINE_LASTS: Final = 10.0  # blocks after which 1/e of a slope is left
AS_IT_WAS: Final = 0.1  # weight of the history as it was
RECENT: Final = 0.25  # weight of recent loads; the rest is that of the hypotheses
MIN_HALF_LIFE_DAYS: Final = 0.5  # of the weight of a load where every change stays
POINTS_AHEAD: Final = 10  # of the term, at which the level is forecast
CHANCES: Final = 9  # levels at each point, of equal chance
LEVELS: Final = 60  # of equal chance that stand for all of them
MAX_LOADS: Final = 2_000  # hours whose ratio to their level is taken; of more, evenly many by size
MIN_LEVEL: Final = 0.05  # of a day, as a share of the mean load, in the ratio of hours to it


class DemandShape(StrEnum):
    """Shape of the demand that is expected: the kind of hypothesis with the largest weight.

    Attributes:
        STEADY: as all of the history, without hypotheses.
        RETURNS: a level that leaves its mean and comes back.
        STAYS: a level that stays where it is until it changes again.
        LINE: a line that goes on for a while.
    """

    STEADY = "steady"
    RETURNS = "returns"
    STAYS = "stays"
    LINE = "line"


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
    ahead_s = load.hours * 3600.0 if horizon_s is None else horizon_s
    per_day = load.steps_per_day
    load = load.part(max(0, len(load.cores) - MAX_DAYS * per_day), len(load.cores))
    days = len(load.cores) // per_day
    if days < MIN_DAYS:
        return _as_it_was(load, f"{load.hours / 24:.3g} days are too few to tell a change from chance")
    whole = load.part(len(load.cores) - days * per_day, len(load.cores))
    level = _without_week(whole.cores.reshape(days, per_day).mean(axis=1))
    around = float(((level - level.mean()) ** 2).sum())
    if around <= 1e-12 * float((level**2).sum()):
        return _as_it_was(load, "the daily means do not change")
    days_per_block = -(-days // MAX_BLOCKS)
    blocks = days // days_per_block
    means = level[days - blocks * days_per_block :].reshape(blocks, days_per_block).mean(axis=1)
    ahead = max(1.0, ahead_s / (load.step_s * per_day * days_per_block))
    outlook = _outlook(means, ahead)
    seen = whole.part(len(whole.cores) - blocks * days_per_block * per_day, len(whole.cores))
    cores, tolerant = _hours_at(np.repeat(outlook.smooth, days_per_block * per_day), seen, outlook.ahead)
    recent = _recent_weights(load, min(_half_life_days(level), float(days)))
    told = {DemandShape.RETURNS: "comes back", DemandShape.STAYS: "stays", DemandShape.LINE: "goes on"}
    chances = ", ".join(f"{told[shape]} ({share:.0%})" for shape, share in outlook.shares.items())
    return ExpectedDemand(
        max(outlook.shares, key=lambda shape: outlook.shares[shape]),
        np.concatenate([cores, load.cores]),
        np.concatenate([tolerant, load.tolerant]),
        np.concatenate(
            [
                np.full(len(cores), (1 - RECENT - AS_IT_WAS) / len(cores)),
                RECENT * recent + AS_IT_WAS / len(load.cores),
            ]
        ),
        f"by its days the level {chances}",
    )


def recent_demand(load: LoadCurve) -> ExpectedDemand:
    """Loads of the last `RECENT_DAYS` days, or of a shorter history, as they were."""
    recent = load.part(max(0, len(load.cores) - RECENT_DAYS * load.steps_per_day), len(load.cores))
    return _as_it_was(
        recent, f"like the last {recent.hours / 24:.3g} days; the history is shorter than the term"
    )


def _as_it_was(load: LoadCurve, reason: str) -> ExpectedDemand:
    count = len(load.cores)
    return ExpectedDemand(DemandShape.STEADY, load.cores, load.tolerant, np.full(count, 1 / count), reason)


def _hours_at(level: Floats, seen: LoadCurve, levels: Floats) -> tuple[Floats, Floats]:
    """Cores and tolerant cores at some levels, by the ratio of a history to its own.

    Args:
        level: (n,) level at each step of the history.
        levels: (m,) levels that are wanted.
    """
    ratio = seen.cores / np.maximum(level, MIN_LEVEL * seen.mean)
    by_size = np.argsort(ratio, kind="stable")
    kept = by_size[np.linspace(0, len(by_size) - 1, min(MAX_LOADS, len(by_size))).round().astype(int)]
    part = np.divide(seen.tolerant, seen.cores, out=np.zeros(len(seen.cores)), where=seen.cores > 0)
    cores = np.multiply.outer(np.maximum(levels, 0.0), ratio[kept]).ravel()
    return cores, cores * np.tile(part[kept], len(levels))


def _recent_weights(load: LoadCurve, half_life_days: float) -> Floats:
    """Weights of the loads of a history, of sum 1, which halve with their age."""
    age_days = np.arange(len(load.cores))[::-1] // load.steps_per_day
    weights = 0.5 ** (age_days / half_life_days)
    shares: Floats = weights / weights.sum()
    return shares


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
    return max(MIN_HALF_LIFE_DAYS, -1 / float(np.log2(1 - gain))) if gain < 1 else MIN_HALF_LIFE_DAYS


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


def _departure(first: Floats, later: Floats, lasts: float) -> Floats:
    """Covariance of a departure from the mean that fades (Ornstein and Uhlenbeck)."""
    # A level that stays counts by what it moves in a block, as its variance has no bound.
    scale = STAYS / 2 if lasts == STAYS else 1.0
    found: Floats = scale * np.exp(-np.abs(first[:, None] - later[None, :]) / lasts)
    return found


def _line(first: Floats, later: Floats) -> Floats:
    """Covariance of a level whose slope fades: the integral of a process of Ornstein and Uhlenbeck."""
    fades = 1 / LINE_LASTS
    one, two = first[:, None], later[None, :]
    found: Floats = (
        2 * fades * np.minimum(one, two)
        + np.exp(-fades * one)
        + np.exp(-fades * two)
        - 1
        - np.exp(-fades * np.abs(one - two))
    ) / fades**2
    return found


@dataclass(frozen=True, eq=False)
class _Outlook:
    """Levels that were and that may come.

    Attributes:
        smooth: (n,) level of each block, without the noise of single blocks.
        ahead: (m,) levels of the term, of equal chance.
        shares: weight of each kind of hypothesis.
    """

    smooth: Floats
    ahead: Floats
    shares: dict[DemandShape, float]


def _outlook(means: Floats, ahead: float) -> _Outlook:
    """Levels over a term by all hypotheses.

    Args:
        means: (n,) level of each block.
        ahead: length of the term, in blocks.
    """
    count = len(means)
    at = np.arange(1.0, count + 1)
    wanted = np.concatenate([at, count + np.linspace(1.0, ahead, POINTS_AHEAD)])
    chances = stdtrit(count - 1, (np.arange(CHANCES) + 0.5) / CHANCES)
    kinds, known, across, alone, prior = [], [], [], [], []
    for lasts, noise, (slope, belief) in itertools.product((*RETURNS, STAYS), NOISE, LINES):
        level = _departure(at, wanted, lasts) + slope * _line(at, wanted)
        across.append(level)
        known.append(level[:, :count] + noise * np.eye(count))
        alone.append(np.diag(_departure(wanted, wanted, lasts) + slope * _line(wanted, wanted)))
        prior.append(np.log(belief))
        one = DemandShape.STAYS if lasts == STAYS else DemandShape.RETURNS
        kinds.append(DemandShape.LINE if slope else one)
    levels, spread, likely = _forecast(means, np.array(known), np.array(across), np.array(alone))
    likely += np.array(prior)
    weights: Floats = np.exp(likely - likely.max())
    weights /= weights.sum()
    values = (levels[:, count:, None] + spread[:, count:, None] * chances).reshape(len(weights), -1)
    order = np.argsort(values, axis=None)
    summed = np.cumsum(np.repeat(weights / values.shape[1], values.shape[1])[order])
    places = np.searchsorted(summed, (np.arange(LEVELS) + 0.5) / LEVELS * summed[-1])
    shares = {kind: float(weights[np.array(kinds) == kind].sum()) for kind in DemandShape if kind in kinds}
    return _Outlook(weights @ levels[:, :count], values.ravel()[order][places], shares)


def _forecast(means: Floats, known: Floats, across: Floats, alone: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean and spread of levels under each covariance, and the log of the likelihood of what was.

    The mean of the process and its scale are integrated out, so a level follows Student's law.

    Args:
        means: (n,) values of the process, with noise.
        known: (h, n, n) covariances of these values.
        across: (h, n, k) covariances of these with the levels that are wanted.
        alone: (h, k) variance of each level that is wanted.
    """
    inverse = np.linalg.inv(known)
    ones = inverse.sum(axis=2)
    precision = ones.sum(axis=1)
    centre = ones @ means / precision
    off = means - centre[:, None]
    squares = np.einsum("hi,hij,hj->h", off, inverse, off)
    squares = np.maximum(squares, np.finfo(np.float64).tiny)
    gains = inverse @ across
    left = alone - (across * gains).sum(axis=1) + (1 - gains.sum(axis=1)) ** 2 / precision[:, None]
    free = len(means) - 1
    likely = -0.5 * (np.linalg.slogdet(known)[1] + np.log(precision) + free * np.log(squares))
    levels = centre[:, None] + np.einsum("hnk,hn->hk", gains, off)
    return levels, np.sqrt(squares[:, None] / free * np.maximum(left, 0.0)), likely
