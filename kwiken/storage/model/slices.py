"""Parts of a trace to train on and to judge on: every second slice, or the earlier and the later half.

A model's fidelity is told by a part that is like the one it was trained on. Slices that take turns hold the
same hours, so that a slow change of the workload falls on both parts alike; a slice holds many steps of each
stream, which are what the model learns. The two halves in time differ by the change of the workload as well,
which no model of the past knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Ints
from kwiken.base.errors import InputError
from kwiken.storage.model.states import BRANCHES
from kwiken.storage.trace.block_trace import BlockTrace

MIN_JUDGED: Final = 100  # I/Os of a part
MIN_SLICES: Final = 20  # of a trace
IOS_OF_STREAM: Final = 20  # in a slice, in the mean over streams
PHASES: Final = 4  # cuts whose slices begin a quarter of a period apart


def quarter_of(start: Ints, low: Ints | int, high: Ints | int, parts: int = BRANCHES) -> Ints:
    """(n,) quarter of a range that each byte is in, 0 to 3.

    Args:
        start: (n,) bytes, by their number.
        low: (n,) or one first byte of the range.
        high: (n,) or one byte after the last of the range.
        parts: number of equal parts of the range; quarters by default.
    """
    width = np.maximum(np.asarray(high - low), 1)
    found: Ints = np.clip(parts * ((start - low) / width), 0, parts - 1).astype(np.int64)
    return found


def ranges_of(trace: BlockTrace) -> tuple[Ints, Ints]:
    """First byte that was addressed, and byte after the last, of each volume; of one without I/Os 0 and 0."""
    low = np.full(len(trace.volumes), np.iinfo(np.int64).max)
    high = np.zeros(len(trace.volumes), dtype=np.int64)
    np.minimum.at(low, trace.volume, trace.start)
    np.maximum.at(high, trace.volume, trace.end)
    return np.minimum(low, high), high


def slice_ios(trace: BlockTrace) -> int:
    """Number of I/Os of a slice, such that it holds `IOS_OF_STREAM` I/Os of a stream in the mean.

    The model learns which I/O follows which in a stream, so that only one pair in `IOS_OF_STREAM` is cut.
    Streams are counted as if all were equally busy. A trace has `MIN_SLICES` slices at least.
    """
    shares = np.bincount(trace.streams) / len(trace)
    streams = 1 / float((shares**2).sum())
    return int(max(min(round(IOS_OF_STREAM * streams), len(trace) // MIN_SLICES), 1))


def cuts(trace: BlockTrace) -> Iterator[tuple[str, BlockTrace, BlockTrace]]:
    """Each way to cut a trace: its name, the part to train on, the part to judge on.

    The first is the one to go by, the next ones begin their slices at other places, and the last one is the
    cut in time.

    Raises:
        InputError: too few I/Os to judge on.
    """
    count = len(trace)
    if count < 2 * MIN_JUDGED:
        raise InputError(
            f"holds {count} I/Os; to train on one half and judge on the other, {2 * MIN_JUDGED} are needed",
            where="trace",
        )
    length = slice_ios(trace)
    for phase in range(PHASES):
        number = (np.arange(count) + phase * 2 * length // PHASES) // length
        yield f"every second slice of {length} I/Os", *_parts(trace, number % 2 == 1)
    yield "the later half", *_parts(trace, np.arange(count) >= count // 2)


def _parts(trace: BlockTrace, held: Bools) -> tuple[BlockTrace, BlockTrace]:
    return _part(trace, ~held), _part(trace, held)


def _part(trace: BlockTrace, wanted: Bools) -> BlockTrace:
    """Chosen slices; the time that passes in the others is left out."""
    chosen = np.flatnonzero(wanted)
    found = trace.taken(chosen)
    gaps = np.diff(found.t_s)
    inside = np.diff(chosen) == 1
    if inside.any():
        gaps = np.where(inside, gaps, gaps[inside].mean())
    return replace(found, t_s=np.concatenate(([0.0], np.cumsum(gaps))))
