"""Generator of traffic: events of a model's pairs in open loop, or counts by bin and pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.traffic.document import TrafficModel
from kwiken.traffic.windows import DAY_S, window_at

MAX_DURATION_S: Final = 366 * DAY_S
MAX_EVENTS: Final = 50_000_000
MAX_CELL: Final = 1e18  # calls or bytes of one bin and pair
MAX_GENERATED_CELLS: Final = 400_000_000  # bins times pairs


@dataclass(frozen=True, eq=False)
class TrafficEvents:
    """Transfers in the order of time.

    Attributes:
        at_s: (n,) time of each transfer since the start, seconds.
        source: (n,) index of the sending endpoint.
        target: (n,) index of the receiving endpoint.
    """

    at_s: Floats
    source: Ints
    target: Ints


def generate_events(
    model: TrafficModel, duration_s: float, rng: np.random.Generator, *, start_s: float, scale: float = 1.0
) -> TrafficEvents:
    """Draw single calls: each window's total is a Poisson process, whose calls choose their pair.

    Args:
        duration_s: length of the stretch, above 0, seconds.
        start_s: time at which it starts, which decides on the windows, seconds since 1970.
        scale: factor of all rates, 0 or more.

    Raises:
        InputError: there would be too many events.
    """
    if duration_s > MAX_DURATION_S:
        raise InputError(
            f"a duration of {duration_s:g} s is too long; at most {MAX_DURATION_S:g} s are drawn"
        )
    source, target = model.pairs
    edges = _edges(start_s, duration_s)
    window = window_at([each.window for each in model.windows], edges[:-1])
    times, pairs = [], []
    expected = 0.0
    for begin, end, place in zip(edges[:-1].tolist(), edges[1:].tolist(), window.tolist(), strict=True):
        rates = model.rates_per_s(place) if place >= 0 else np.zeros(len(source))
        mean = scale * float(rates.sum()) * (end - begin)
        expected += mean
        if expected > MAX_EVENTS:
            raise InputError(
                f"there would be more than {MAX_EVENTS} events; choose a shorter time, or counts"
            )
        count = int(rng.poisson(mean))
        if count:
            times.append(np.sort(rng.random(count)) * (end - begin) + begin - start_s)
            pairs.append(rng.choice(len(source), size=count, p=rates / rates.sum()))
    at = np.concatenate(times) if times else np.empty(0)
    chosen = np.concatenate(pairs) if pairs else np.empty(0, np.int64)
    return TrafficEvents(at, source[chosen], target[chosen])


def generate_counts(
    model: TrafficModel,
    bins: int,
    rng: np.random.Generator,
    *,
    start_s: float,
    bin_s: float | None = None,
    scale: float = 1.0,
) -> Ints:
    """(b, p) calls or bytes by bin and pair of the model, without drawing single events.

    Args:
        bins: number of time bins, 1 or more.
        start_s: start of the first bin, which decides on the windows, seconds since 1970.
        bin_s: length of a bin, seconds; None for the model's own.
        scale: factor of all rates, 0 or more.

    Raises:
        InputError: there would be too many cells, or too much in one of them.
    """
    if bins * len(model.source) > MAX_GENERATED_CELLS:
        raise InputError(
            f"there would be more than {MAX_GENERATED_CELLS} bins times pairs; choose fewer bins"
        )
    length = model.bin_s if bin_s is None else bin_s
    starts = np.asarray(start_s + length * np.arange(bins), np.float64)
    window = window_at([each.window for each in model.windows], starts)
    found = np.zeros((bins, len(model.source)), dtype=np.int64)
    for place in np.unique(window[window >= 0]).tolist():
        rows = np.flatnonzero(window == place)
        mean = scale * length * model.rates_per_s(place)
        if not mean.max() <= MAX_CELL:
            raise InputError(f"a pair would have more than {MAX_CELL:g} in one bin; choose a smaller scale")
        found[rows] = rng.poisson(mean, size=(len(rows), len(mean)))
    return found


def _edges(start_s: float, duration_s: float) -> Floats:
    """Start and end of a stretch, and the full hours between, at which windows may change."""
    hour = 3600.0
    inner = np.arange(np.floor(start_s / hour) + 1, np.ceil((start_s + duration_s) / hour)) * hour
    return np.array([start_s, *inner.tolist(), start_s + duration_s])
