"""Drawn loads of 34 days, hour by hour, that what to reserve is decided and judged on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

DAYS = 34
HOURS = 24 * DAYS
Curve = NDArray[np.float64]
Chance = np.random.Generator
AT = np.arange(HOURS) / 24.0  # days


def by_day(depth: float) -> Curve:
    curve: Curve = 1 + depth * np.sin(2 * np.pi * (24 * AT - 9) / 24)
    return curve


def by_week(chance: Chance, weekend: float) -> Curve:
    curve: Curve = np.where((AT.astype(int) + chance.integers(7)) % 7 >= 5, 1 + weekend, 1.0)
    return curve


def noise(chance: Chance, spread: float) -> Curve:
    curve: Curve = np.exp(spread * chance.standard_normal(HOURS))
    return curve


def stairs(chance: Chance) -> Curve:
    """Long work that is added, and now and then taken away."""
    load = np.full(HOURS, 100.0)
    for _ in range(chance.poisson(chance.uniform(3, 14))):
        up = 1 if chance.random() < 0.85 else -1
        load[chance.integers(0, HOURS) :] += up * chance.exponential(12.0)
    least: Curve = np.maximum(load, 5.0)
    return least


def decline(chance: Chance) -> Curve:
    """Day and week, and less by the week."""
    slope = 1 - chance.uniform(0.1, 0.5) * AT / DAYS
    return 200 * slope * by_day(0.3) * by_week(chance, -0.2) * noise(chance, 0.05)


def walk(chance: Chance) -> Curve:
    """A level that goes up or down by chance from day to day."""
    level = np.cumsum(chance.standard_normal(DAYS + 1)) * chance.uniform(4, 14) + 200
    load: Curve = np.maximum(np.interp(AT, np.arange(DAYS + 1), level), 10.0)
    return load * by_day(chance.uniform(0, 0.3)) * noise(chance, 0.05)


def returns(chance: Chance) -> Curve:
    """A load that leaves its mean and comes back within a day or two."""
    load = np.zeros(HOURS)
    steps = 6 * chance.standard_normal(HOURS)
    for at in range(1, HOURS):
        load[at] = 0.97 * load[at - 1] + steps[at]
    return np.maximum(150 + load, 1.0)


def weekly(chance: Chance) -> Curve:
    """Day and week, with growth or less."""
    slope = 1 + chance.uniform(-0.2, 0.4) * AT / DAYS
    return 200 * slope * by_day(0.45) * by_week(chance, chance.uniform(-0.6, 0.4)) * noise(chance, 0.06)


def one_step(chance: Chance) -> Curve:
    """Day and week, and one step up or down."""
    load = 150 * by_day(0.25) * by_week(chance, chance.uniform(-0.4, 0.2)) * noise(chance, 0.05)
    load[chance.integers(3 * 24, 30 * 24) :] *= chance.choice([0.6, 0.75, 1.3, 1.6])
    return load


def turn(chance: Chance) -> Curve:
    """A line that bends."""
    bend = [0.0, chance.uniform(12, 26), float(DAYS)]
    level = np.interp(AT, bend, [100.0, 100 * chance.uniform(1.3, 2.2), 100 * chance.uniform(0.9, 1.6)])
    return level * by_day(0.2) * noise(chance, 0.06)


def launch(chance: Chance) -> Curve:
    """A rise to three times, slow or quick."""
    middle, width = chance.uniform(8, 26), chance.uniform(1, 5)
    return (100 + 200 / (1 + np.exp(-(AT - middle) / width))) * by_day(0.2) * noise(chance, 0.06)


def noisy(chance: Chance) -> Curve:
    """One level with noise of hours."""
    return 150 * noise(chance, chance.uniform(0.05, 0.5))


def nights(chance: Chance) -> Curve:
    """Heavy work in the nights of working days."""
    night = ((24 * AT) % 24 < 6) & (by_week(chance, 1.0) < 2)
    return 60 + night * chance.gamma(9.0, 20.0, HOURS)


def term(chance: Chance) -> Curve:
    """A school: half of the load in holidays of a week or two, somewhere in the time."""
    first, days = chance.uniform(0, DAYS), chance.uniform(7, 14)
    away = (first < AT) & (first + days > AT)
    return 180 * np.where(away, 0.5, 1.0) * by_day(0.5) * by_week(chance, -0.5) * noise(chance, 0.08)


def game(chance: Chance) -> Curve:
    """A game: releases after which the load decays, evenings, more at weekends."""
    load = np.full(HOURS, 60.0)
    at = -chance.uniform(0, 20)
    while at < DAYS:
        since = AT - at
        load += np.where(since > 0, chance.uniform(50, 200) * np.exp(-np.maximum(since, 0) / 6.0), 0.0)
        at += chance.uniform(10, 25)
    return load * by_day(0.5) * by_week(chance, 0.3) * noise(chance, 0.05)


SHAPES: dict[str, Callable[[Chance], Curve]] = {
    one.__name__: one
    for one in (stairs, decline, walk, returns, weekly, one_step, turn, launch, noisy, nights)
}
UNSEEN: dict[str, Callable[[Chance], Curve]] = {
    one.__name__: one for one in (term, game)
}  # for the check alone
