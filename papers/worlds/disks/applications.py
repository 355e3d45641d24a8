"""Drawn traces of ten applications, by the published shares; what is not told was chosen before any run.

A trace's positions follow a cascade: each level of the space is cut in four parts of the published shares, so
that accesses gather in ever smaller ranges. Sequential I/Os go on where their stream's last one ended. Gaps
are gamma with a coefficient of variation of 1.3. None of this is the model that is learned from a trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.storage.trace.block_trace import BlockTrace, trace_of

SPACE: Final = 575 << 30  # bytes that one application addresses
ALIGN: Final = 8192
DEPTH: Final = 3  # levels of the cascade
GAP_SPREAD: Final = 1.3  # coefficient of variation
EVEN: Final = (0.4, 0.3, 0.2, 0.1)  # shares of an application whose states are not told
USUAL_SIZES: Final = ((8192, 0.87), (65536, 0.09), (1024, 0.04))


@dataclass(frozen=True)
class Application:
    """Published facts of an application.

    Attributes:
        states: share of the I/Os in each quarter of the space.
        read: share of reads.
        sequential: share of sequential I/Os before defragmentation.
        contiguous: share of sequential I/Os after it.
        rate_per_s: number of I/Os a second.
        told: whether the states are published.
    """

    name: str
    states: tuple[float, float, float, float]
    read: float
    sequential: float
    contiguous: float
    rate_per_s: float
    told: bool = False


APPLICATIONS: Final = (
    Application("Messenger", (0.315, 0.228, 0.455, 0.002), 0.737, 0.093, 0.357, 255.1, True),
    Application("Email", EVEN, 0.528, 0.137, 0.337, 120.0),
    Application("Search", EVEN, 0.498, 0.085, 0.245, 150.0),
    Application("UserContent", EVEN, 0.583, 0.055, 0.250, 200.0),
    Application("D-Process", (0.796, 0.204, 0.0, 0.0), 0.301, 0.268, 0.544, 180.0, True),
    Application("DisplayAds", EVEN, 0.965, 0.043, 0.192, 220.0),
    Application("TPCC", (0.6, 0.25, 0.1, 0.05), 0.688, 0.028, 0.299, 400.0),
    Application("TPCE", (0.898, 0.084, 0.017, 0.001), 0.913, 0.082, 0.224, 24_694.0, True),
    Application("TPCH", (0.927, 0.062, 0.011, 0.0), 0.967, 0.355, 0.472, 300.0, True),
    Application("Exchange", (0.423, 0.558, 0.019, 0.0), 0.320, 0.168, 0.319, 134.0, True),
)


def drawn_trace(
    app: Application, ios: int, rng: np.random.Generator, *, swing: float = 0.0, days: float = 1.0
) -> BlockTrace:
    """Trace of an application.

    Args:
        ios: number of I/Os to draw.
        swing: ratio of the highest to the lowest rate of a day, less 1; 0 for a steady rate.
        days: number of days that the I/Os fill if the rate swings.
    """
    sizes = np.array([size for size, _ in USUAL_SIZES])
    shares = np.array([share for _, share in USUAL_SIZES])
    size = sizes[rng.choice(len(sizes), ios, p=shares / shares.sum())]
    start = _cascade(np.array(app.states), ios, rng)
    thread = rng.integers(0, 4, ios)
    start = _with_runs(start, size, thread, rng.random(ios) < app.sequential)
    start[0], start[-1] = 0, SPACE - int(size[-1])  # the whole space is addressed
    shape = GAP_SPREAD**-2
    gaps = rng.gamma(shape, 1.0 / shape, ios)
    t_s = _swung(gaps, swing, days) if swing > 0 else np.cumsum(gaps) / app.rate_per_s
    return trace_of(
        t_s,
        np.zeros(ios, dtype=np.int64),
        start,
        size,
        rng.random(ios) < app.read,
        thread,
        where=app.name,
    )


def _swung(gaps: Floats, swing: float, days: float) -> Floats:
    """(n,) times of I/Os whose rate follows a sine over each day."""
    passed = np.cumsum(gaps) / gaps.sum()
    grid = np.linspace(0, days, 2001)
    half = swing / (2 + swing)
    done = grid + half * (np.cos(0.0) - np.cos(2 * np.pi * grid)) / (2 * np.pi)
    t_s: Floats = np.interp(passed, done / done[-1], grid) * 86_400.0
    return t_s


def _cascade(states: Floats, ios: int, rng: np.random.Generator) -> Ints:
    """(n,) starts, drawn level by level; the order of the parts is shuffled below the first level."""
    shares = np.cumsum(states / states.sum())
    place = np.zeros(ios, dtype=np.int64)
    for level in range(DEPTH):
        drawn = np.minimum(np.searchsorted(shares, rng.random(ios), side="right"), 3)
        if level:  # which part is the hottest differs from parent to parent
            drawn = (drawn + place * 2654435761 // 65536) % 4
        place = place * 4 + drawn
    width = SPACE // 4**DEPTH
    starts: Ints = place * width + rng.integers(0, width // ALIGN - 16, ios) * ALIGN
    return starts


def _with_runs(
    start: Ints, size: Ints, thread: Ints, follows: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> Ints:
    """(n,) starts in which an I/O that follows begins where its thread's last one ended."""
    order = np.argsort(thread, kind="stable")
    run = ~follows[order]
    run[np.flatnonzero(np.concatenate(([True], np.diff(thread[order]) != 0)))] = True
    first = np.maximum.accumulate(np.where(run, np.arange(len(order)), 0))
    before = np.cumsum(size[order]) - size[order]
    found = np.empty(len(order), dtype=np.int64)
    found[order] = start[order][first] + before - before[first]
    return np.where(found + size > SPACE, SPACE - size, found)


def fragmented_trace(app: Application, ios: int, rng: np.random.Generator) -> tuple[BlockTrace, BlockTrace]:
    """The same accesses to files, scattered in extents and laid out contiguously.

    Files are read in runs whose length gives the share of sequential I/Os after defragmentation; extents are
    so short that the share before comes out.

    Args:
        ios: number of I/Os to draw.

    Returns:
        The trace on the fragmented layout and on the contiguous one.
    """
    block, files, blocks = 8192, 512, 4096
    goes_on = rng.random(ios) < app.contiguous
    goes_on[0] = False
    file = rng.integers(0, files, ios)
    offset = rng.integers(0, blocks, ios)
    first = np.maximum.accumulate(np.where(goes_on, 0, np.arange(ios)))
    file = file[first]
    offset = (offset[first] + np.arange(ios) - first) % blocks
    intact = min(1.0, app.sequential / max(app.contiguous, 1e-9))
    # An extent ends after each block with the chance that a sequential pair is to break.
    ends = rng.random((files, blocks)) >= intact
    extent: Ints = np.cumsum(ends.ravel()) - ends.ravel()
    place = rng.permutation(int(extent[-1]) + 1)
    within = np.arange(files * blocks) - np.maximum.accumulate(
        np.where(np.diff(extent, prepend=-1) != 0, np.arange(files * blocks), 0)
    )
    number = file * blocks + offset
    scattered = place[extent[number]].astype(np.int64) * (blocks * 4) + within[number]
    shape = GAP_SPREAD**-2
    t_s = np.cumsum(rng.gamma(shape, 1.0 / shape, ios)) / app.rate_per_s
    read = rng.random(ios) < app.read
    # Files are laid one after the other, in the order of their first access.
    seen, first_access = np.unique(file, return_index=True)
    rank = np.empty(files, dtype=np.int64)
    rank[seen[np.argsort(first_access)]] = np.arange(len(seen))
    laid = rank[file] * blocks + offset
    size = np.full(ios, block)
    volume = np.zeros(ios, dtype=np.int64)
    before, after = (
        trace_of(t_s, volume, where_ * block, size, read, where=app.name) for where_ in (scattered, laid)
    )
    return before, after
