"""Generators of today beside the model, as fio draws them: random, Zipf, and random with the trace's mix.

Each gets the trace's volumes, sizes, read share, sequential share and mean rate, which an operator can
measure and write into a job file. What they lack is where accesses are, what they touch again, and how gaps
vary.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Ints
from kwiken.storage.model.reuse import resolve
from kwiken.storage.trace import BlockTrace

BASELINES: Final = ("fio random", "fio zipf:1.1", "fio pareto:0.2", "fio normal:25")
ZIPF_THETA: Final = 1.1  # fio's own example
PARETO_H: Final = 0.2  # fio's own example: 80% of accesses on a fifth of the blocks
NORMAL_DEVIATION: Final = 0.25  # of the middle, as a share of the range
MAX_RANKS: Final = 1 << 20


def baseline(name: str, trace: BlockTrace, ios: int, rng: np.random.Generator) -> BlockTrace:
    """Trace of a generator that knows a trace's mix.

    Args:
        name: generator to imitate, one of `BASELINES`.
        trace: trace whose sizes, read share, sequential share, volumes and mean rate are used.
        ios: number of I/Os to draw.
    """
    picked = rng.integers(len(trace), size=ios)
    volume, size = trace.volume[picked], trace.size[picked]
    reads = rng.random(ios) < trace.read.mean()
    sequential = rng.random(ios) < trace.sequential.mean()
    low, high = _ranges(trace)
    align = 4096
    blocks = np.maximum((high - low) // align, 1)[volume]
    where = _places(name, ios, rng)
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


def _places(name: str, ios: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(n,) places within a range, 0 to 1."""
    if name == "fio random":
        return rng.random(ios)
    if name == "fio normal:25":
        return np.clip(rng.normal(0.5, NORMAL_DEVIATION, ios), 0.0, 1 - 1e-12)
    # fio draws a rank by its law and scatters ranks over the range by a hash.
    if name == "fio pareto:0.2":
        rank = (rng.random(ios) ** (np.log(PARETO_H) / np.log(1 - PARETO_H)) * MAX_RANKS).astype(np.int64)
    else:
        weights = np.arange(1, MAX_RANKS + 1) ** -ZIPF_THETA
        rank = np.searchsorted(np.cumsum(weights) / weights.sum(), rng.random(ios))
    scattered: np.ndarray[tuple[int], np.dtype[np.float64]] = (rank * 2654435761 % (1 << 32)) / (1 << 32)
    return scattered


def _ranges(trace: BlockTrace) -> tuple[Ints, Ints]:
    low = np.full(len(trace.volumes), np.iinfo(np.int64).max)
    high = np.zeros(len(trace.volumes), dtype=np.int64)
    np.minimum.at(low, trace.volume, trace.start)
    np.maximum.at(high, trace.volume, trace.end)
    return np.minimum(low, high), high


def _continued(volume: Ints, start: Ints, size: Ints, sequential: Bools) -> Ints:
    """(n,) starts, those of sequential I/Os where the one before on the volume ended."""
    order = np.argsort(volume, kind="stable")
    same = volume[order[1:]] == volume[order[:-1]]
    parent = np.arange(len(volume))
    parent[order[1:][same]] = order[:-1][same]
    parent = np.where(sequential, parent, np.arange(len(volume)))
    moved = parent != np.arange(len(volume))
    return resolve(parent, np.where(moved, size[parent], 0), start)


def fio_random(trace: BlockTrace, ios: int, rng: np.random.Generator) -> BlockTrace:
    """Trace of fio's random mode, which knows a trace's mix; see `baseline`."""
    return baseline("fio random", trace, ios, rng)
