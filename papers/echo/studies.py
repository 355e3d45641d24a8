"""Studies of ECHO on the synthetic systems: each trains on an original and measures what is generated."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from papers.echo.chains import expected_map, subset
from papers.echo.deviations import by_load, of_averages, of_maps, over_time
from papers.echo.systems import (
    BIN_S,
    COMBINE,
    DAY_BINS,
    DrawnSystem,
    System,
    draw,
    loads,
    window_of_bins,
)
from papers.echo.temporal import CurveFamily, TemporalModel, TimedCurve, fit_server

DAYS: Final = 7
RUNS: Final = 5
LARGE_ERROR: Final = 0.1
Figures = dict[str, float]
Tables = dict[str, Any]  # lists of deviations, or one


def averages(system: System, seed: int) -> Tables:
    """Deviations of servers' averages, of their activity and of the whole map, over five generated runs."""
    rng = np.random.default_rng(seed)
    drawn = draw(system, rng)
    seconds = DAYS * DAY_BINS * BIN_S
    traffic = rng.poisson(drawn.rates * seconds).astype(np.float64)
    load = traffic.sum(axis=0) + traffic.sum(axis=1)
    model = expected_map(traffic, drawn.racks)
    found = []
    for _ in range(RUNS):
        run = rng.poisson(model)
        found.append(of_averages(load, run.sum(axis=0) + run.sum(axis=1)).mean())
    space = of_maps(traffic, rng.poisson(model).astype(np.float64))
    time = _activity(drawn, np.arange(len(load)), rng)[0]
    return {
        "averages": float(np.mean(found)),
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
