"""Synthetic data centres with the features that the source reports: Websearch and Combine.

All constants were fixed before the first comparison, from the source's findings where it states any:
daily peaks at 15 and 21 o'clock, weekends 16.5% higher, Combine busier than Websearch, most traffic in the
same or a next rack, few servers that talk to all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from papers.echo.chains import Racks

BIN_S: Final = 300
DAY_BINS: Final = 288
SERVERS: Final = 48  # of a rack
WEEKEND: Final = 1.165  # load of a weekend day over that of a weekday
PEAK_HOURS: Final = (15.0, 21.0)
PEAK_HEIGHT: Final = 0.5  # of each peak, over the floor of the day
PEAK_WIDTH_H: Final = 2.0
BUSTLE: Final = 0.05  # standard deviation of the log of the load of one bin of one server
RACK_SPREAD: Final = 0.3  # of the log of the load by rack
SERVER_SPREAD: Final = 0.1  # of the log of the load by server inside of a rack
PAIR_SHAPE: Final = 4.0  # of the gamma distribution of the weight of a pair: coefficient of variation 0.5
HEAVY: Final = 0.003  # share of the servers far above the others
HEAVY_FACTOR: Final = 10.0


@dataclass(frozen=True)
class System:
    """One system.

    Attributes:
        racks: number of racks of the whole system.
        requests_per_s: mean rate of a server, requests a second.
        in_rack: share of a server's traffic that stays in its rack.
        next_rack: share that goes to the racks beside it.
        in_group: share that goes to other racks of its group.
        talkers: number of servers that talk to all others alike.
    """

    name: str
    racks: int
    per_group: int
    requests_per_s: float
    in_rack: float
    next_rack: float
    in_group: float
    talkers: int
    servers: int = SERVERS


WEBSEARCH: Final = System("Websearch", 20, 5, 2.0, 0.60, 0.20, 0.12, 4)
COMBINE: Final = System("Combine", 12, 4, 6.0, 0.55, 0.20, 0.15, 3)


@dataclass(frozen=True, eq=False)
class DrawnSystem:
    """Structure of one system, drawn once.

    Attributes:
        rates: (n, n) requests a second by sender and receiver, in the mean over a week.
    """

    system: System
    racks: Racks
    rates: Floats


def draw(system: System, rng: np.random.Generator) -> DrawnSystem:
    """Draw the structure of a system."""
    rack = np.repeat(np.arange(system.racks), system.servers)
    racks = Racks(rack, np.arange(system.racks) // system.per_group)
    count = len(rack)
    weight = np.exp(
        RACK_SPREAD * rng.standard_normal(system.racks)[rack] + SERVER_SPREAD * rng.standard_normal(count)
    )
    weight[rng.random(count) < HEAVY] *= HEAVY_FACTOR
    shares = _destinations(system, racks, weight, rng)
    rates = weight[:, None] / weight.mean() * system.requests_per_s * shares
    return DrawnSystem(system, racks, rates)


def _destinations(system: System, racks: Racks, weight: Floats, rng: np.random.Generator) -> Floats:
    """(n, n) share of each receiver in what a sender sends."""
    rack, group = racks.rack, racks.server_group
    apart = np.abs(rack[:, None] - rack)
    same_group = group[:, None] == group
    tiers = (
        (apart == 0, system.in_rack),
        (apart == 1, system.next_rack),
        ((apart > 1) & same_group, system.in_group),
        ((apart > 1) & ~same_group, 1.0 - system.in_rack - system.next_rack - system.in_group),
    )
    pair = rng.gamma(PAIR_SHAPE, 1.0 / PAIR_SHAPE, (len(rack), len(rack))) * weight
    np.fill_diagonal(pair, 0.0)
    shares = np.zeros_like(pair)
    for allowed, share in tiers:
        some = pair * allowed
        total = some.sum(axis=1, keepdims=True)
        shares += share * np.divide(some, total, out=np.zeros_like(some), where=total > 0)
    talkers = rng.choice(len(rack), size=system.talkers, replace=False)
    shares[talkers] = pair[talkers]
    shares[:, talkers] *= 1.0 + 0.5 * (system.racks > 1)
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def profile(day: int) -> Floats:
    """(288,) load of one day by bin, relative to the mean weekday; days are counted from a Monday."""
    hour = np.arange(DAY_BINS) * 24.0 / DAY_BINS
    shape = np.ones(DAY_BINS)
    for peak in PEAK_HOURS:
        shape += PEAK_HEIGHT * np.exp(-0.5 * ((hour - peak) / PEAK_WIDTH_H) ** 2)
    return np.asarray(shape / shape.mean() * (WEEKEND if is_weekend(day) else 1.0))


def is_weekend(day: int) -> bool:
    """Whether a day, counted from a Monday, is a Saturday or a Sunday."""
    return day % 7 >= 5  # noqa: PLR2004 - Saturday


def window_of_bins(days: int) -> Ints:
    """(days * 288,) index of the model of each bin: the ten models of the source's template.

    Weekdays alternate between two templates of four windows, weekend days have two windows.
    """
    quarter = np.arange(DAY_BINS) // (DAY_BINS // 4)
    half = np.arange(DAY_BINS) // (DAY_BINS // 2)
    parts = [8 + half if is_weekend(day) else 4 * (day % 2) + quarter for day in range(days)]
    return np.concatenate(parts)


def loads(rate: Floats, days: int, rng: np.random.Generator) -> Ints:
    """(b, n) requests of each server in each bin of some days from a Monday.

    Args:
        rate: (n,) mean rate of each server, requests a second.
    """
    shape = np.concatenate([profile(day) for day in range(days)])
    mean = shape[:, None] * rate * BIN_S
    mean = mean * np.exp(BUSTLE * rng.standard_normal(mean.shape) - 0.5 * BUSTLE**2)
    return np.asarray(rng.poisson(mean), np.int64)
