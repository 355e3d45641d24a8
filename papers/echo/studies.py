"""Studies of ECHO on the synthetic systems: each trains on an original and measures what is generated."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.extras import needs
from papers.echo.chains import expected_map, subset
from papers.echo.deviations import by_load, of_averages, of_maps, over_time
from papers.echo.systems import (
    BIN_S,
    COMBINE,
    DAY_BINS,
    LATE_DECEMBER,
    RENDER,
    REQUEST_MB,
    WEBMAIL,
    WEBSEARCH,
    DrawnSystem,
    System,
    draw,
    is_weekend,
    loads,
    of_month,
    profile,
    window_of_bins,
)
from papers.echo.temporal import CurveFamily, TemporalModel, TimedCurve, fit_server

DAYS: Final = 7
RUNS: Final = 5
LARGE_ERROR: Final = 0.1
MIN_DIP: Final = 0.1  # of the range of a day, by which a peak stands out
LOADS: Final = (("A", 10.0, 1.0), ("B", 14.0, 1.0), ("C", 2.0, 1.0), ("D", 14.0, 1.165))
LOAD_BINS: Final = 24  # two hours
Figures = dict[str, float]
Tables = dict[str, list[float]]


def averages(system: System, seed: int) -> Tables:
    """Deviations of each server's average, of its activity and of the whole map, over five generated runs."""
    rng = np.random.default_rng(seed)
    drawn = draw(system, rng)
    seconds = DAYS * DAY_BINS * BIN_S
    traffic = rng.poisson(drawn.rates * seconds).astype(np.float64)
    load = traffic.sum(axis=0) + traffic.sum(axis=1)
    model = expected_map(traffic, drawn.racks)
    found = []
    for _ in range(RUNS):
        run = rng.poisson(model)
        found.append(by_load(of_averages(load, run.sum(axis=0) + run.sum(axis=1)), load))
    space = of_maps(traffic, rng.poisson(model).astype(np.float64))
    time = _activity(drawn, np.arange(len(load)), rng)[0]
    return {
        "averages": np.mean(found, axis=0).tolist(),
        "space": np.quantile(space, (0.5, 0.9)).tolist(),
        "time": np.quantile(time, (0.5, 0.9)).tolist(),
        "above": [float((time > LARGE_ERROR).mean()), float((space > LARGE_ERROR).mean())],
    }


def _activity(drawn: DrawnSystem, servers: Ints, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """(k,) deviation of some servers' rates over a week with the ten models, and their loads."""
    rate = drawn.rates.sum(axis=1)[servers]
    original = loads(rate, DAYS, rng).astype(np.float64)
    window = window_of_bins(DAYS)
    mean = np.zeros_like(original)
    for name in np.unique(window):
        rows = window == name
        mean[rows] = original[rows].mean(axis=0)
    found = [over_time(original, rng.poisson(mean).astype(np.float64)) for _ in range(RUNS)]
    return np.asarray(np.mean(found, axis=0)), rate


def subsets(system: System, seed: int) -> Tables:
    """Deviations over time and of the map of four subsets: a rack, two racks, half a group, scattered."""
    rng = np.random.default_rng(seed)
    drawn = draw(system, rng)
    size, count = system.servers, len(drawn.racks.rack)
    chosen = {
        "S1": np.arange(size),
        "S2": np.arange(size, 3 * size),
        "S3": np.concatenate([np.arange(r * size, r * size + size // 2) for r in range(system.per_group)]),
        "S4": np.sort(rng.choice(count, size=size, replace=False)),
    }
    traffic = rng.poisson(drawn.rates * DAYS * DAY_BINS * BIN_S).astype(np.float64)
    found: Tables = {}
    for name, servers in chosen.items():
        time, rate = _activity(drawn, servers, rng)
        found[f"time {name}"] = by_load(time, rate)
        part = subset(traffic, servers, cloud=True)
        racks = drawn.racks.among(servers, cloud=True)
        model = expected_map(part, racks)
        space = np.mean([of_maps(part, rng.poisson(model).astype(np.float64)) for _ in range(RUNS)], axis=0)[
            :-1
        ]
        found[f"space {name}"] = by_load(space, (part.sum(axis=0) + part.sum(axis=1))[:-1])
    return found


def one_rack(seed: int) -> Tables:
    """Deviations of 24 servers over two hours of each load of the webmail."""
    rng = np.random.default_rng(seed)
    drawn = draw(WEBMAIL, rng)
    found: Tables = {}
    for name, hour, factor in LOADS:
        first = round(hour / 24 * DAY_BINS)
        scale = float(profile(0)[first : first + LOAD_BINS].mean()) * factor
        traffic = rng.poisson(drawn.rates * scale * LOAD_BINS * BIN_S).astype(np.float64)
        load = traffic.sum(axis=0) + traffic.sum(axis=1)
        model = expected_map(traffic, drawn.racks)
        runs = [rng.poisson(model) for _ in range(RUNS)]
        each = [of_averages(load, run.sum(axis=0) + run.sum(axis=1)) for run in runs]
        found[name] = by_load(np.mean(each, axis=0), load)
    return found


def server_over_time(seed: int) -> Figures:
    """Temporal model of a planted server of the webmail: three humps, one decay, a floor and 2% of noise."""
    rng = np.random.default_rng(seed)
    time = np.arange(DAY_BINS, dtype=np.float64)
    planted = TemporalModel(
        (
            TimedCurve(CurveFamily.CONSTANT, 2.0, 0.0, 1.0),
            TimedCurve(CurveFamily.EXPONENTIAL, 8.0, 20.0, 12.0),
            TimedCurve(CurveFamily.GAUSSIAN, 10.0, 90.0, 12.0),
            TimedCurve(CurveFamily.GAUSSIAN, 7.0, 150.0, 10.0),
            TimedCurve(CurveFamily.GAUSSIAN, 12.0, 210.0, 15.0),
        )
    )
    series = planted.values(time) * (1 + 0.02 * rng.standard_normal(DAY_BINS))
    model = fit_server(series)
    families = [curve.family for curve in model.curves]
    return {
        "deviation": model.deviation(series),
        **{family.value: float(families.count(family)) for family in CurveFamily},
    }


def december(seed: int) -> Figures:
    """Load of the three systems over a December: weekends, last two weeks, peaks of a day, bands."""
    found: Figures = {}
    for number, system in enumerate((WEBSEARCH, COMBINE, RENDER)):
        rng = np.random.default_rng((seed, number))
        rate = draw(system, rng).rates.sum()
        first = 3  # 1 December 2011 was a Thursday
        days = []
        for day in range(31):
            mean = rate * profile(first + day) * BIN_S * (LATE_DECEMBER if day >= 17 else 1.0)  # noqa: PLR2004
            days.append(rng.poisson(mean).astype(np.float64))
        totals = np.array([day.sum() for day in days])
        weekend = np.array([is_weekend(first + day) for day in range(31)])
        early = np.arange(31) < 17  # noqa: PLR2004
        found[f"{system.name} weekend"] = float(
            totals[weekend & early].mean() / totals[~weekend & early].mean() - 1
        )
        same = [totals[early & (weekend == kind)].mean() for kind in (False, True)]
        late = [totals[~early & (weekend == kind)].mean() for kind in (False, True)]
        found[f"{system.name} late"] = float(np.mean([b / a for a, b in zip(same, late, strict=True)]) - 1)
        found[f"{system.name} peaks"] = float(_peaks(np.mean(days, axis=0)))
        found[f"{system.name} bands"] = float(_bands(np.concatenate(days)))
        found[f"{system.name} load"] = float(totals.mean() * REQUEST_MB / (len(days[0]) * BIN_S)) / (
            system.racks * system.servers
        )
    return found


def _peaks(day: Floats) -> int:
    """Number of peaks of a day after a mean of an hour: tops that stand out by a tenth of the day's range."""
    with needs("papers.echo", "plan"):
        from scipy.signal import find_peaks

    smooth = np.convolve(np.concatenate([day[-6:], day, day[:6]]), np.ones(13) / 13, "valid")
    smooth = np.roll(smooth, -int(smooth.argmin()))  # a day is a circle, and begins at its lowest bin
    return len(find_peaks(smooth, prominence=MIN_DIP * float(np.ptp(smooth)))[0])


def _bands(month: Floats) -> int:
    """Number of bright bands of a month: runs above its mean, those parted by less than four hours as one."""
    smooth = np.convolve(month, np.ones(13) / 13, "same")
    bright = np.flatnonzero(smooth > smooth.mean())
    return 1 + int((np.diff(bright) > 4 * DAY_BINS // 24).sum())


def locality(system: System, seed: int) -> Figures:
    """Shares of the bytes by distance of racks, servers that talk far, and changes of the map over time."""
    rng = np.random.default_rng(seed)
    drawn = draw(system, rng)
    rack = drawn.racks.rack
    apart = np.abs(rack[:, None] - rack)
    rates = drawn.rates
    total = rates.sum()
    far = np.where(apart > 1, rates, 0.0).sum(axis=1) / rates.sum(axis=1)
    months = [_rack_map(draw(of_month(system, rng), np.random.default_rng((seed, 1)))) for _ in range(5)]
    days = [_shaken(months[0], system.daily, rng) for _ in range(7)]
    weeks = [np.mean([_shaken(months[0], system.daily, rng) for _ in range(7)], axis=0) for _ in range(4)]
    whole = [np.mean([_shaken(month, system.daily, rng) for _ in range(28)], axis=0) for month in months]
    return {
        "rack": float(rates[apart == 0].sum() / total),
        "near": float(rates[apart <= 1].sum() / total),
        "talkers": float((far > 0.5).mean()),  # noqa: PLR2004 - most of what they send goes far
        "days": _distance(days),
        "weeks": _distance(weeks),
        "months": _distance(whole),
    }


def _rack_map(drawn: DrawnSystem) -> Floats:
    onto = np.zeros((len(drawn.racks.rack), drawn.system.racks))
    onto[np.arange(len(onto)), drawn.racks.rack] = 1.0
    return np.asarray(onto.T @ drawn.rates @ onto)


def _shaken(month: Floats, daily: float, rng: np.random.Generator) -> Floats:
    return np.asarray(month * np.exp(daily * rng.standard_normal(month.shape)))


def _distance(maps: list[Floats]) -> float:
    """Mean over neighbours in time of half the sum of the differences of two maps as shares."""
    shares = [one / one.sum() for one in maps]
    return float(np.mean([0.5 * np.abs(a - b).sum() for a, b in pairwise(shares)]))


def levels(seed: int) -> Figures:
    """Deviation of each server's average in Combine with one to three levels, and with uniform landing."""
    rng = np.random.default_rng(seed)
    drawn = draw(COMBINE, rng)
    traffic = rng.poisson(drawn.rates * DAYS * DAY_BINS * BIN_S).astype(np.float64)
    load = traffic.sum(axis=0) + traffic.sum(axis=1)
    found: Figures = {}
    for name, model in (
        ("1", expected_map(traffic, drawn.racks, 1)),
        ("2", expected_map(traffic, drawn.racks, 2)),
        ("3", expected_map(traffic, drawn.racks, 3)),
        ("3 uniform", expected_map(traffic, drawn.racks, 3, "uniform")),
    ):
        run = rng.poisson(model)
        found[name] = float(of_averages(load, run.sum(axis=0) + run.sum(axis=1)).mean())
    return found


def pair(seed: int) -> Figures:
    """Deviation of one pair of a rack of Combine, both directions, in a weekday's and a weekend's window."""
    rng = np.random.default_rng(seed)
    drawn = draw(COMBINE, rng)
    inside = drawn.rates[: COMBINE.servers, : COMBINE.servers]
    ranked = np.argsort(inside + inside.T, axis=None)
    first, second = divmod(int(ranked[len(ranked) // 2]), COMBINE.servers)
    both = np.array([inside[first, second], inside[second, first]])
    found = {}
    for name, hours, factor in (("weekday", 6, 1.0), ("weekend", 12, 1.165)):
        original = rng.poisson(both * factor * hours * 3600)
        runs = [np.abs(rng.poisson(original) - original) / np.maximum(original, 1) for _ in range(RUNS)]
        found[name] = float(np.mean(runs))
        whole = rng.poisson(drawn.rates * factor * hours * 3600).astype(np.float64)
        load, run = whole.sum(axis=1), rng.poisson(expected_map(whole, drawn.racks)).sum(axis=1)
        found[f"{name} averages"] = float(of_averages(load, run.astype(np.float64)).mean())
    return found


def cloud(seed: int) -> Figures:
    """Totals of the servers of a subset of Combine, over those of the system, with and without a cloud."""
    rng = np.random.default_rng(seed)
    drawn = draw(COMBINE, rng)
    traffic = rng.poisson(drawn.rates * DAYS * DAY_BINS * BIN_S).astype(np.float64)
    servers = np.arange(COMBINE.servers, 3 * COMBINE.servers)
    whole = traffic.sum(axis=0)[servers] + traffic.sum(axis=1)[servers]
    found = {}
    for name, with_cloud in (("with", True), ("without", False)):
        racks = drawn.racks.among(servers, cloud=with_cloud)
        model = expected_map(subset(traffic, servers, cloud=with_cloud), racks)
        kept = (model.sum(axis=0) + model.sum(axis=1))[: len(servers)]
        found[name] = float((kept / whole).mean())
        found[f"{name} worst"] = float((kept / whole).min())
    return found
