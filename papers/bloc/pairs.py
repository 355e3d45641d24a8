"""Pairs of applications on one disk: mirrors beside the applications themselves, limits, compression."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.storage.consolidation.forecast import HIGH, LOW, DemandForecaster
from kwiken.storage.consolidation.interference import AccessMix
from kwiken.storage.model.generator import IODrawing, generate
from kwiken.storage.model.training import train
from kwiken.storage.trace.block_trace import BlockTrace, trace_of
from papers.bloc.cluster import APPS, TARGET_MS
from papers.bloc.published_curve import published_latency_ms, published_limit
from papers.worlds.disks.applications import APPLICATIONS, Application, drawn_trace
from papers.worlds.disks.devices import DiskModel, served

SHARES: Final = (0.0, 0.1, 0.2, 0.29, 0.3, 0.5, 0.69, 0.7)
IOS: Final = 6000  # of a trace of one application
LEVELS: Final = 6  # parts of a day whose rates are compared
DAY_IOS: Final = 360_000
ARRAY: Final = DiskModel(disks=4)
RATE: Final = (10.0, 200.0)  # I/Os a second of an application, drawn evenly in the logarithm


def predict(history: float, seen: float, wrong_share: float) -> float:
    """Demand to expect, by the published rule.

    Args:
        history: mean demand of the same time of day, in units of the demand.
        seen: demand that is seen now, in the same unit.
        wrong_share: share of the predictions so far that were wrong, 0 to 1.
    """
    if wrong_share >= HIGH:
        return seen
    weight = wrong_share**2 if wrong_share < LOW else wrong_share
    return (1.0 - weight) * history + weight * seen


def pairs_served(mix: AccessMix, capacity: Floats, most: float) -> Bools:
    """(a, a) pairs whose sums of bandwidth and of bytes one node can take.

    Bandwidth counts as what the more random of the two could get alone.

    Args:
        capacity: (a,) bytes of each application, in units of GB.
        most: capacity of the node, a number of GB.
    """
    able = np.minimum(mix.alone[:, None], mix.alone[None, :])
    fits: Bools = (mix.bandwidth[:, None] + mix.bandwidth[None, :] <= able) & (
        capacity[:, None] + capacity[None, :] <= most
    )
    return fits


def formulas() -> dict[str, float]:
    """Values that follow from the formulas alone."""
    found = {f"A {share:g}": predict(100.0, 200.0, share) for share in SHARES}
    found["Websearch"] = 100 * published_limit(TARGET_MS, APPS[0].most)
    found["Webmail"] = 100 * published_limit(TARGET_MS, APPS[1].most)
    for fill in (0.5, 0.9):
        # A full disk moves its head further: seeks grow with the share that is filled.
        found[f"capacity {fill}"] = 1.5 * (1.0 + 0.4 * fill)
        found[f"bandwidth {fill}"] = float(published_latency_ms(0.9 * fill, 1.0))
    return found


def day_of_model(seed: int) -> dict[str, float]:
    """Rate of a day, of its model and of the model with the day in 15 minutes."""
    rng = np.random.default_rng([seed, 11])
    app = next(each for each in APPLICATIONS if each.name == "Search")
    trace = drawn_trace(app, DAY_IOS, rng, swing=4.0)
    model = train(trace)
    made = generate(model, rng)
    short = generate(model, rng, IODrawing(compress=96.0))
    by_hour, of_model = (
        np.bincount(np.minimum((each.t_s // 3600).astype(int), 23), minlength=24) for each in (trace, made)
    )
    share = short.t_s / max(short.duration_s, 1e-9)
    of_short = np.bincount(np.minimum((share * LEVELS).astype(int), LEVELS - 1), minlength=LEVELS)
    expected = by_hour.reshape(LEVELS, -1).sum(axis=1) / by_hour.sum()
    return {
        "day": 100 * float((np.abs(of_model - by_hour) / by_hour).mean()),
        "level": 100 * float((np.abs(of_short / of_short.sum() - expected) / expected).mean()),
        "times": made.duration_s / max(short.duration_s, 1e-9),
        "gaps": _ks_within_levels(made, short),
    }


def _ks_within_levels(long: BlockTrace, short: BlockTrace) -> float:
    """Largest distance of the distributions of gaps in the same sixth of the day."""
    worst = 0.0
    for level in range(LEVELS):
        gaps = []
        for each in (long, short):
            part = each.t_s / max(each.duration_s, 1e-9)
            chosen = np.flatnonzero((part[:-1] >= level / LEVELS) & (part[:-1] < (level + 1) / LEVELS))
            gaps.append(np.sort(np.diff(each.t_s)[chosen]))
        points = np.concatenate(gaps)
        worst = max(
            worst,
            float(
                np.abs(
                    np.searchsorted(gaps[0], points, side="right") / len(gaps[0])
                    - np.searchsorted(gaps[1], points, side="right") / len(gaps[1])
                ).max()
            ),
        )
    return worst


def mirrored_pairs(seed: int) -> dict[str, float]:
    """Interference of all pairs of ten applications, measured and by mirrors."""
    rng = np.random.default_rng([seed, 12])
    rates = np.exp(rng.uniform(np.log(RATE[0]), np.log(RATE[1]), len(APPLICATIONS)))
    apps = [
        Application(each.name, each.states, each.read, each.sequential, each.contiguous, float(rate))
        for each, rate in zip(APPLICATIONS, rates, strict=True)
    ]
    real = [drawn_trace(app, IOS, rng) for app in apps]
    mirrors = [generate(train(trace), rng) for trace in real]
    true, told = _losses(real), _losses(mirrors)
    pairs = np.triu_indices(len(apps), 1)
    measured, predicted = (100 * ((each + each.T) / 2)[pairs] for each in (true, told))
    mix = AccessMix(
        np.array([trace.size.sum() / trace.duration_s / 1e6 for trace in real]),
        np.array([1 - trace.sequential.mean() for trace in real]),
        400.0,
        4.0 * np.mean([trace.size.mean() for trace in real]) / 6e-3 / 1e6,
    )
    kept = pairs_served(mix, rng.uniform(50, 450, len(apps)), 1200.0)[pairs]
    if not kept.any():
        kept[:] = True
    error = np.abs(predicted - measured)[kept]
    return {
        "kept": 100 * float(kept.mean()),
        "least": float(measured[kept].min()),
        "most": float(measured[kept].max()),
        "mean error": float(error.mean()),
        "largest error": float(error.max()),
        "over": 100 * float((predicted > measured)[kept].mean()),
    }


def _losses(traces: list[BlockTrace]) -> Floats:
    """Loss of the row's application beside the column's: the rise of its mean latency, at most all of it."""
    count = len(traces)
    span = min(trace.duration_s for trace in traces)
    cut = [trace.taken(trace.t_s <= span) for trace in traces]
    alone = [float(served(trace, ARRAY)[0].mean()) for trace in cut]
    losses = np.zeros((count, count))
    for first in range(count):
        for second in range(first + 1, count):
            both, owner = _together(cut[first], cut[second])
            latency, _ = served(both, ARRAY)
            for which, (own, other) in enumerate(((first, second), (second, first))):
                rise = float(latency[owner == which].mean()) / alone[own] - 1.0
                losses[own, other] = min(max(rise, 0.0), 1.0)
    return losses


def _together(first: BlockTrace, second: BlockTrace) -> tuple[BlockTrace, Floats]:
    """Two traces on one disk, each in its own threads, and (n,) which of the two an I/O is from."""
    times = np.concatenate((first.t_s, second.t_s))
    order = np.argsort(times, kind="stable")
    owner = np.repeat([0.0, 1.0], [len(first), len(second)])
    threads = np.concatenate((first.thread, second.thread + 1000))
    both = trace_of(
        times[order],
        np.zeros(len(order), dtype=np.int64),
        np.concatenate((first.start, second.start))[order],
        np.concatenate((first.size, second.size))[order],
        np.concatenate((first.read, second.read))[order],
        threads[order],
        where="pair",
    )
    return both, owner[order]


def forecasts(seed: int) -> dict[str, float]:
    """Share of intervals that the published rule and a quantile of 0.95 cover, on a drawn week and day."""
    from papers.bloc.cluster import drawn_world

    world = drawn_world(seed)
    series = np.concatenate((world.history, world.demand)).reshape(-1, 3, len(world.kind)).mean(axis=1)
    found = {}
    for name, quantile in (("rule", None), ("quantile", 0.95)):
        caster = DemandForecaster(48, series.shape[1], quantile)
        below, count = 0.0, 0
        for at, seen in enumerate(series):
            if at:
                ahead = caster.forecast()
                if at >= len(series) - 48:
                    below += float((seen <= ahead).mean())
                    count += 1
            caster.observe(seen)
        found[name] = 100 * below / count
    return found
