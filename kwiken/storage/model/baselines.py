"""Generators of today beside the model, as fio draws them: random, Zipf, Pareto, normal, and zones.

Each gets the trace's volumes, sizes, read share, sequential share and mean rate, which an operator can
measure and write into a job file, and the setting of its law that is nearest to the trace. What they lack is
what follows what, what is touched again, and how gaps vary; all but the zones lack where accesses are.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.storage.model.reuse import resolve
from kwiken.storage.model.slices import quarter_of, ranges_of
from kwiken.storage.trace.block_trace import BlockTrace

# Settings of each generator's law: theta of Zipf, h of Pareto, deviation in percent of the range, zones.
BASELINES: Final[dict[str, tuple[float, ...]]] = {
    "fio random": (0.0,),
    "fio zipf": (0.2, 0.5, 0.8, 0.99, 1.1, 1.2),
    "fio pareto": (0.1, 0.2, 0.3, 0.4, 0.45),
    "fio normal": (10.0, 25.0, 50.0, 100.0),
    "fio zoned_abs": (4.0, 16.0, 64.0),
}
MAX_RANKS: Final = 1 << 20
PERCENT: Final = 100  # of accesses, the whole parts that fio gives to zones


def baseline(name: str, setting: float, trace: BlockTrace, ios: int, rng: np.random.Generator) -> BlockTrace:
    """Trace of a generator that knows a trace's mix.

    Args:
        name: generator to imitate, one of `BASELINES`.
        setting: parameter of its law, one of those in `BASELINES`.
        trace: trace whose sizes, read share, sequential share, volumes and mean rate are used.
        ios: number of I/Os to draw.
    """
    picked = rng.integers(len(trace), size=ios)
    volume, size = trace.volume[picked], trace.size[picked]
    reads = rng.random(ios) < trace.read.mean()
    sequential = rng.random(ios) < trace.sequential.mean()
    low, high = ranges_of(trace)
    align = 4096
    blocks = np.maximum((high - low) // align, 1)[volume]
    where = (
        _zoned(int(setting), trace, volume, rng)
        if name == "fio zoned_abs"
        else _places(name, setting, ios, rng)
    )
    start = low[volume] + np.minimum((where * blocks).astype(np.int64), blocks - 1) * align
    start = _continued(volume, start, size, sequential)
    start = np.where(start + size > high[volume], low[volume], start)
    gap_s = trace.duration_s / max(len(trace) - 1, 1)
    return BlockTrace(
        t_s=np.cumsum(rng.exponential(gap_s, ios)) - gap_s,
        volume=volume,
        start=start,
        size=size,
        read=reads,
        thread=np.zeros(ios, dtype=np.int64),
        volumes=trace.volumes,
    )


def _places(name: str, setting: float, ios: int, rng: np.random.Generator) -> Floats:
    """(n,) places within a range, 0 to 1."""
    if name == "fio random":
        return rng.random(ios)
    if name == "fio normal":
        return np.clip(rng.normal(0.5, setting / 100, ios), 0.0, 1 - 1e-12)
    # fio draws a rank by its law and scatters ranks over the range by a hash.
    if name == "fio pareto":
        rank = (rng.random(ios) ** (np.log(setting) / np.log(1 - setting)) * MAX_RANKS).astype(np.int64)
    else:
        rank = np.searchsorted(_zipf(setting), rng.random(ios))
    scattered: Floats = (rank * 2654435761 % (1 << 32)) / (1 << 32)
    return scattered


@cache
def _zipf(theta: float) -> Floats:
    """(r,) chance of ranks up to each one by Zipf's law."""
    weights: Floats = np.arange(1, MAX_RANKS + 1, dtype=np.float64) ** -theta
    shares: Floats = np.cumsum(weights) / weights.sum()
    return shares


def _zoned(zones: int, trace: BlockTrace, volume: Ints, rng: np.random.Generator) -> Floats:
    """(n,) places within each I/O's volume by the accesses of its equal zones, in whole percents."""
    low, high = ranges_of(trace)
    own = quarter_of(trace.start, low[trace.volume], high[trace.volume], zones)
    counts = np.bincount(trace.volume * zones + own, minlength=len(low) * zones).reshape(-1, zones)
    exact = PERCENT * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    parts = np.floor(exact)
    # The largest remainders get the percents that are left.
    rank = np.argsort(np.argsort(parts - exact, axis=1, kind="stable"), axis=1, kind="stable")
    parts += rank < PERCENT - parts.sum(axis=1, keepdims=True)
    shares = np.cumsum(parts, axis=1) / PERCENT
    zone = np.minimum((shares[volume] <= rng.random(len(volume))[:, None]).sum(axis=1), zones - 1)
    places: Floats = (zone + rng.random(len(volume))) / zones
    return places


def _continued(volume: Ints, start: Ints, size: Ints, sequential: Bools) -> Ints:
    """(n,) starts, those of sequential I/Os where the one before on the volume ended."""
    order = np.argsort(volume, kind="stable")
    same = volume[order[1:]] == volume[order[:-1]]
    parent = np.arange(len(volume))
    parent[order[1:][same]] = order[:-1][same]
    parent = np.where(sequential, parent, np.arange(len(volume)))
    moved = parent != np.arange(len(volume))
    return resolve(parent, np.where(moved, size[parent], 0), start)
