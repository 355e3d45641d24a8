"""Drawn loads kept for the check of what to reserve, and those that its choice was widened by.

Both were written down before any rule had seen them. Loads of `CHOICE` may be looked at while a rule is
chosen, with seeds below 100. Loads of `KEPT` are drawn once a rule stands.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.placement.renting.drawn_demands import (
    AT,
    DAYS,
    HOURS,
    SHAPES,
    UNSEEN,
    Chance,
    Curve,
    by_day,
    by_week,
    noise,
)


def reverts(chance: Chance) -> Curve:
    """A load that is pushed off its mean, by chance or by jumps, and comes back in a day or in a month."""
    back = np.exp(-1 / (24 * 0.5 * 60 ** chance.random()))  # from half a day to 30 days
    if chance.random() < 0.5:
        pushes = chance.standard_normal(2 * HOURS)
    else:
        pushes = chance.exponential(size=2 * HOURS) * (chance.random(2 * HOURS) < chance.uniform(0.003, 0.03))
    away = np.zeros(2 * HOURS)
    for at in range(1, 2 * HOURS):
        away[at] = back * away[at - 1] + pushes[at]
    away = away[HOURS:]
    spread = chance.uniform(0.05, 0.5) / max(float(away.std()), 1e-9)
    level = np.maximum(1 + spread * (away - away.mean() * chance.random()), 0.05)
    load: Curve = 150 * level * by_day(chance.uniform(0, 0.5)) * by_week(chance, chance.uniform(-0.4, 0.3))
    return load


def ramps(chance: Chance) -> Curve:
    """A line that begins on one day and ends on another, up or down."""
    first = chance.uniform(-10, 28)
    last = first + chance.uniform(3, 30)
    level = np.interp(AT, [first, last], [1.0, chance.choice([0.4, 0.6, 0.8, 1.3, 1.7, 2.5])])
    load: Curve = 150 * level * by_day(chance.uniform(0, 0.5)) * by_week(chance, -0.2) * noise(chance, 0.05)
    return load


def regimes(chance: Chance) -> Curve:
    """Two or three levels, between which the load changes by chance."""
    levels = chance.uniform(0.4, 1.6, int(chance.integers(2, 4)))
    stays_days = chance.uniform(2, 14)
    level, at, now = np.zeros(HOURS), 0, int(chance.integers(len(levels)))
    while at < HOURS:
        until = at + max(1, round(24 * chance.exponential(stays_days)))
        level[at:until] = levels[now]
        now, at = int(chance.integers(len(levels))), until
    return 150 * level * by_day(chance.uniform(0, 0.4)) * noise(chance, 0.06)


CHOICE: dict[str, Callable[[Chance], Curve]] = {one.__name__: one for one in (reverts, ramps, regimes)}


def tenants(chance: Chance) -> Curve:
    """Customers that come by chance, keep some cores for a long or a short time, and leave."""
    past_days = 60
    count = int(chance.poisson((past_days + DAYS) * chance.uniform(2, 8)))
    first = chance.uniform(-past_days, DAYS, count)
    last = first + 1.5 * (1 + chance.pareto(1.3, count))
    cores = chance.lognormal(1.5, 1.0, count)
    there = (first[:, None] <= AT[None, :]) & (AT[None, :] < last[:, None])
    load: Curve = 5 + (cores[:, None] * there).sum(axis=0) * by_day(chance.uniform(0, 0.3))
    return load


def weather(chance: Chance) -> Curve:
    """Cooling: a share of the load follows the heat, which lasts for some days, and the season."""
    keeps, heat = chance.uniform(0.6, 0.9), np.zeros(DAYS + 61)
    for day in range(1, len(heat)):
        heat[day] = keeps * heat[day - 1] + np.sqrt(1 - keeps**2) * chance.standard_normal()
    season = chance.uniform(-0.04, 0.04) * AT
    warm = np.interp(AT, np.arange(DAYS + 1), heat[60:]) + season + 0.7 * np.sin(2 * np.pi * (AT - 0.4))
    return (120 + 50 * np.maximum(warm + 0.5, 0.0)) * by_week(chance, -0.1) * noise(chance, 0.04)


def campaigns(chance: Chance) -> Curve:
    """A shop with sales of some days, and quiet days between."""
    lift, at = np.ones(HOURS), -chance.uniform(0, 15)
    while at < DAYS:
        days = chance.uniform(2, 7)
        lift[(at <= AT) & (at + days > AT)] += chance.uniform(0.3, 1.2)
        at += days + chance.uniform(4, 15)
    return 120 * lift * by_day(0.5) * by_week(chance, 0.25) * noise(chance, 0.07)


def month_end(chance: Chance) -> Curve:
    """Accounts: two to four days at the end of a month with much more work, and little at weekends."""
    into_month = (AT + chance.uniform(0, 30.4)) % 30.4
    closing = into_month > 30.4 - chance.uniform(2, 4)
    lift = np.where(closing, chance.uniform(1.6, 3.0), 1.0)
    return 90 * lift * by_day(0.6) * by_week(chance, -0.7) * noise(chance, 0.08)


def migration(chance: Chance) -> Curve:
    """Customers moved in (or out) batch by batch, a few days apart, until all are moved."""
    batches, every = int(chance.integers(4, 14)), chance.uniform(1, 5)
    sizes = chance.dirichlet(np.full(batches, 4.0))
    begins = chance.uniform(-15, 25)
    moved: Curve = sizes @ (begins + every * np.arange(batches)[:, None] <= AT)
    share: Curve = moved if chance.random() < 0.7 else 1 - moved
    return (40 + 200 * share) * by_day(0.35) * by_week(chance, -0.3) * noise(chance, 0.05)


def news(chance: Chance) -> Curve:
    """Readers: stories at any time, some of them large, whose readers fall off as a power of the time."""
    load, count = np.zeros(HOURS), int(chance.poisson(60 * chance.uniform(0.2, 1.0)))
    for at, size in zip(chance.uniform(-26, DAYS, count), chance.pareto(1.7, count), strict=True):
        since = AT - at
        load += np.where(since > 0, 40 * min(size, 12.0) * (1 + np.maximum(since, 0) / 0.3) ** -1.2, 0.0)
    return (60 + load) * by_day(0.5) * noise(chance, 0.06)


def exchange(chance: Chance) -> Curve:
    """Trade in the hours of working days, with calm and busy weeks and some wild days."""
    keeps, volume = chance.uniform(0.8, 0.97), np.zeros(DAYS + 40)
    for day in range(1, len(volume)):
        volume[day] = keeps * volume[day - 1] + 0.25 * chance.standard_t(4)
    days = AT.astype(int)
    weekday = (days + int(chance.integers(7))) % 7 < 5
    opened = ((24 * AT) % 24 >= 8) & ((24 * AT) % 24 < 18) & weekday
    size = np.exp(np.clip(0.5 * volume[40:], -1.5, 1.5))[days]
    load: Curve = (30 + 150 * opened * size) * noise(chance, 0.1)
    return load


KEPT: dict[str, Callable[[Chance], Curve]] = {
    one.__name__: one for one in (tenants, weather, campaigns, month_end, migration, news, exchange)
}


def drawn(shape: str, seed: int) -> Curve:
    """One load of a shape."""
    for first, kinds in ((0, SHAPES | UNSEEN), (100, CHOICE), (200, KEPT)):
        if shape in kinds:
            return kinds[shape](np.random.default_rng((seed, first + sorted(kinds).index(shape))))
    raise KeyError(shape)
