"""Trace of block I/O as arrays: issue time, volume, first byte, bytes, read or write, thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError

MAX_OFFSET: Final = 1 << 62  # bytes; sums of an offset and a size stay within 64 bits
MAX_IO_BYTES: Final = 1 << 32  # of one I/O
SECTOR: Final = 512  # bytes


@dataclass(frozen=True, eq=False)
class BlockTrace:
    """I/Os in the order of their issue.

    Attributes:
        t_s: (n,) issue times, seconds from the first I/O, never falling.
        volume: (n,) index of each I/O's volume in `volumes`.
        start: (n,) first byte of each I/O.
        size: (n,) number of bytes of each I/O.
        read: (n,) whether an I/O reads.
        thread: (n,) number of the issuing thread; all 0 where the trace tells none.
        volumes: names of the volumes in the order of their index.
        notes: facts that the reader of a file found, such as lines that were skipped.
    """

    t_s: Floats
    volume: Ints
    start: Ints
    size: Ints
    read: Bools
    thread: Ints
    volumes: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.t_s)

    @property
    def duration_s(self) -> float:
        """Time from the first to the last I/O, seconds."""
        return float(self.t_s[-1] - self.t_s[0]) if len(self) else 0.0

    @cached_property
    def end(self) -> Ints:
        """(n,) byte after the last of each I/O."""
        return self.start + self.size

    @cached_property
    def streams(self) -> Ints:
        """(n,) number of each I/O's stream: the I/Os of one thread on one volume."""
        threads = int(self.thread.max(initial=0)) + 1
        numbers: Ints = np.unique(self.volume * threads + self.thread, return_inverse=True)[1]
        return numbers.astype(np.int64)

    @cached_property
    def sequential(self) -> Bools:
        """(n,) whether an I/O starts where the I/O before it in its stream ended."""
        return follows(self.streams, self.start, self.end)

    def taken(self, chosen: Bools | Ints | slice) -> BlockTrace:
        """Part of the trace; sequences are told anew within it."""
        return replace(
            self,
            t_s=self.t_s[chosen],
            volume=self.volume[chosen],
            start=self.start[chosen],
            size=self.size[chosen],
            read=self.read[chosen],
            thread=self.thread[chosen],
        )

    def without_empty_volumes(self) -> BlockTrace:
        """The trace with the volumes alone that hold an I/O."""
        kept, volume = np.unique(self.volume, return_inverse=True)
        names = tuple(self.volumes[number] for number in kept.tolist())
        return replace(self, volume=volume.astype(np.int64), volumes=names)


def follows(streams: Ints, start: Ints, end: Ints) -> Bools:
    """(n,) whether an I/O starts where the one before it in its stream ended; False for a stream's first."""
    order = np.argsort(streams, kind="stable")
    ordered = streams[order]
    found = np.zeros(len(streams), dtype=bool)
    same = (ordered[1:] == ordered[:-1]) & (start[order[1:]] == end[order[:-1]])
    found[order[1:]] = same
    return found


class RecordError(InputError):
    """A wrong value of one record of a trace.

    Args:
        record: index of the record among those read, from 0.
    """

    def __init__(self, problem: str, *, record: int, where: str) -> None:
        super().__init__(f"I/O {record + 1}: {problem}", where=where)
        self.record = record
        self.of_record = problem


def trace_of(
    t_s: Floats,
    volume: Sequence[str] | Ints,
    start: Ints,
    size: Ints,
    read: Bools,
    thread: Ints | None = None,
    *,
    where: str,
    notes: Sequence[str] = (),
    records: Ints | None = None,
) -> BlockTrace:
    """Trace of columns in any order of time.

    Args:
        t_s: (n,) issue times of any origin, seconds.
        volume: (n,) names or numbers of the volumes.
        start: (n,) first byte of each I/O.
        size: (n,) number of bytes of each I/O; I/Os of none are left out and counted.
        read: (n,) whether an I/O reads.
        thread: (n,) number of each thread; None where the trace tells none.
        where: source to name in errors, such as a file's path.
        notes: facts to hand on to the user.
        records: (n,) index of each I/O among the records that were read; None where all are I/Os.

    Raises:
        InputError: no I/O with bytes.
        RecordError: an offset below 0 or too large, a time that is no number; names the record.
    """
    names, codes = _numbered(volume)
    told = list(notes)
    read_as = np.arange(len(t_s)) if records is None else records
    if len(t_s) and not np.isfinite(t_s).all():
        at = int(read_as[np.argmin(np.isfinite(t_s))])
        raise RecordError("its time is no number", record=at, where=where)
    for name, values, most in (("offset", start, MAX_OFFSET), ("size", size, MAX_IO_BYTES)):
        wrong = (values < 0) | (values > most)
        if wrong.any():
            at = int(np.argmax(wrong))
            problem = f"the {name} is {int(values[at])}; from 0 to {most} bytes is right"
            raise RecordError(problem, record=int(read_as[at]), where=where)
    kept = size > 0
    if not kept.all():
        told.append(f"{int((~kept).sum())} I/Os of 0 bytes were left out")
    if not kept.any():
        raise InputError("holds no I/O with bytes", where=where)
    backwards = int((np.diff(t_s) < 0).sum())
    if backwards:
        told.append(f"the clock runs backwards {backwards} times; I/Os were sorted by time")
    order = np.flatnonzero(kept)
    order = order[np.argsort(t_s[order], kind="stable")]
    numbers = (
        np.zeros(len(t_s), dtype=np.int64) if thread is None else np.unique(thread, return_inverse=True)[1]
    )
    return BlockTrace(
        t_s=np.asarray(t_s, dtype=np.float64)[order] - float(t_s[order[0]]),
        volume=codes[order],
        start=np.asarray(start, dtype=np.int64)[order],
        size=np.asarray(size, dtype=np.int64)[order],
        read=np.asarray(read, dtype=bool)[order],
        thread=numbers.astype(np.int64)[order],
        volumes=names,
        notes=tuple(told),
    )


def _numbered(volume: Sequence[str] | Ints) -> tuple[tuple[str, ...], Ints]:
    """Names of the volumes in order, and (n,) the index of each I/O's volume.

    Texts are not laid into an array, in which each would take the place of the longest.
    """
    if isinstance(volume, np.ndarray):
        found, codes = np.unique(volume, return_inverse=True)
        return tuple(str(name) for name in found), codes.astype(np.int64)
    names = tuple(sorted(set(volume)))
    index = {name: number for number, name in enumerate(names)}
    return names, np.fromiter(map(index.__getitem__, volume), np.int64, len(volume))
