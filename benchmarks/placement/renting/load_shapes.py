"""Loads that look-ahead rules are judged on, each over ten minutes, in units of what one node serves.

Written down before any rule was compared on them. Every shape begins with a steady part of random length.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LASTS_S = 600
LOW = 0.6
HIGH = 1.2
Curve = NDArray[np.float64]  # load of each second


@dataclass(frozen=True)
class LoadShape:
    """A shape of load.

    Attributes:
        flat: whether nothing is to be rented.
    """

    name: str
    draw: Callable[[random.Random], Curve]
    flat: bool = False


def _line(points: list[tuple[float, float]]) -> Curve:
    at, load = zip(*points, strict=True)
    curve: Curve = np.interp(np.arange(LASTS_S) + 0.5, at, load)
    return curve


def flat(level: float) -> Callable[[random.Random], Curve]:
    return lambda _: np.full(LASTS_S, level)


def ramp(seconds: float, high: float = HIGH, holds_s: float = 60.0) -> Callable[[random.Random], Curve]:
    """Low, a rise over some seconds, high for a while, and low again at once."""

    def draw(chance: random.Random) -> Curve:
        start = chance.uniform(20.0, 120.0)
        top = start + seconds
        end = top + holds_s
        return _line([(0, LOW), (start, LOW), (top, high), (end, high), (end + 1e-3, LOW), (1e6, LOW)])

    return draw


def stairs(chance: random.Random) -> Curve:
    """Twice the load in six steps of five seconds: the live benchmark's."""
    start = int(chance.uniform(20.0, 120.0))
    load = np.full(LASTS_S, LOW)
    for step in range(6):
        load[start + 5 * step : start + 60] = LOW * (1 + (step + 1) / 6)
    return load


def triangles(chance: random.Random) -> Curve:
    """Doubles and falls over minutes, again and again."""
    period = chance.uniform(150.0, 250.0)
    start = chance.uniform(20.0, 80.0)
    points: list[tuple[float, float]] = [(0.0, LOW)]
    while start < LASTS_S:
        points += [(start, LOW), (start + period / 3, HIGH), (start + 2 * period / 3, LOW)]
        start += period
    return _line(points)


def waves(chance: random.Random) -> Curve:
    """A sine between half of a node and 1.3 nodes, with a period of minutes."""
    period, phase = chance.uniform(200.0, 400.0), chance.uniform(0.0, 1.0)
    at = np.arange(LASTS_S) + 0.5
    load: Curve = 0.9 + 0.4 * np.sin(2 * np.pi * (at / period + phase))
    return load


def bursts(chance: random.Random) -> Curve:
    """Steady, with a burst of twice the load for two seconds every minute or so."""
    load = np.full(LASTS_S, 0.5)
    at = chance.uniform(5.0, 60.0)
    while at < LASTS_S:
        load[int(at) : int(at) + 2] = 1.0
        at += chance.expovariate(1 / 60.0) + 5.0
    return load


def uneven(chance: random.Random) -> Curve:
    """Steady in the mean, with a rate that varies from second to second beyond chance."""
    load: Curve = LOW * np.array([chance.gammavariate(8.0, 1 / 8.0) for _ in range(LASTS_S)])
    return load


def fall(chance: random.Random) -> Curve:
    """A load that falls to half and comes back to what it was."""
    start = chance.uniform(60.0, 200.0)
    return _line([(0, LOW), (start, LOW), (start + 60, LOW / 2), (start + 200, LOW / 2), (start + 260, LOW)])


def begins(chance: random.Random) -> Curve:
    """Nothing at first, then the usual load at once."""
    load = np.full(LASTS_S, LOW)
    load[: int(chance.uniform(10.0, 60.0))] = 0.0
    return load


def quarter(chance: random.Random) -> Curve:
    """A rise by a quarter in half a minute or two minutes, which one node carries, and back."""
    start, seconds = chance.uniform(20.0, 120.0), chance.choice([30.0, 120.0])
    top = start + seconds
    level = 1.25 * LOW
    return _line([(0, LOW), (start, LOW), (top, level), (top + 120, level), (top + 150, LOW), (1e6, LOW)])


SHAPES = (
    LoadShape("flat at 0.6", flat(0.6), flat=True),
    LoadShape("flat at 0.75", flat(0.75), flat=True),
    LoadShape("short bursts", bursts, flat=True),
    LoadShape("uneven seconds", uneven, flat=True),
    LoadShape("falls and comes back", fall, flat=True),
    LoadShape("begins", begins, flat=True),
    LoadShape("rises by a quarter", quarter, flat=True),
    LoadShape("step to twice", ramp(0.5)),
    LoadShape("doubles in 15 s", ramp(15.0)),
    LoadShape("doubles in 30 s, in stairs", stairs),
    LoadShape("doubles in 30 s", ramp(30.0)),
    LoadShape("doubles in 1 min", ramp(60.0)),
    LoadShape("doubles in 3 min", ramp(180.0)),
    LoadShape("doubles in 6 min", ramp(360.0)),
    LoadShape("five times in 2 min", ramp(120.0, high=3.0)),
    LoadShape("doubles and falls", triangles),
    LoadShape("waves", waves),
)
