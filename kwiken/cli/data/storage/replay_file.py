"""Open-loop replay against one file: made for the replay, filled, driven at absolute deadlines, and removed.

Workers take the I/Os in order, each waits for the deadline of its own and sends it. An I/O whose deadline has
passed when a worker is free is sent at once and counted as late; none is dropped. Latency is counted from the
deadline, so that a stalled device shows in the latencies of all I/Os that waited for it.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import mmap
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from kwiken.apps.console import reason_of, room_in
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError

if TYPE_CHECKING:
    from kwiken.storage.trace import BlockTrace

BLOCK: Final = 4096  # bytes; offsets and sizes sent are multiples of it
CHUNK: Final = 1 << 20  # bytes written at once when the file is filled
KEPT_FREE: Final = 0.05  # share of a disk's free space that no replay may take
LATE_S: Final = 0.001  # beyond its deadline, from which an I/O counts as late
PRIVATE: Final = 0o600


@dataclass(frozen=True, eq=False)
class ReplayRun:
    """What a replay measured.

    Attributes:
        latency_s: (n,) time from each I/O's deadline to its end, seconds.
        late_s: (n,) time from each deadline to the sending of the I/O, seconds.
        read: (n,) whether an I/O reads.
        duration_s: time from the first deadline to the end of the last I/O, seconds.
        asked_per_s: number of I/Os a second that were asked for.
        direct: whether the page cache was left out.
    """

    latency_s: Floats
    late_s: Floats
    read: Bools
    duration_s: float
    asked_per_s: float
    direct: bool

    @property
    def served_per_s(self) -> float:
        """Number of I/Os a second that ended."""
        return len(self.latency_s) / max(self.duration_s, 1e-9)

    @property
    def late(self) -> int:
        """Number of I/Os that were sent later than `LATE_S` after their deadline."""
        return int((self.late_s > LATE_S).sum())


@contextlib.contextmanager
def made_file(path: str, size: int, *, keep: bool) -> Iterator[tuple[int, bool]]:
    """Make a file and fill it with data; it is removed in the end.

    Args:
        path: name of the file, which must not exist.
        size: number of bytes to fill.
        keep: whether the file stays.

    Returns:
        Descriptor of the file, and whether it leaves out the page cache.

    Raises:
        InputError: the file exists, or its folder is missing, read only or too full.
    """
    free = room_in(Path(path).parent)
    if size > free * (1 - KEPT_FREE):
        raise InputError(
            f"needs {size / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free; give a smaller --size", where=path
        )
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        number = os.open(path, flags, PRIVATE)
    except FileExistsError as error:
        raise InputError(
            "exists; a replay writes only to a file that it makes itself: give a new name", where=path
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be made: {reason_of(error)}", where=path) from error
    made = os.fstat(number)
    try:
        _fill(number, size, path)
        direct = _direct(path, made)
        yield (direct if direct is not None else number), direct is not None
        if direct is not None:
            os.close(direct)
    finally:
        os.close(number)
        if not keep:
            _remove(path, made)


def _fill(number: int, size: int, path: str) -> None:
    data = os.urandom(CHUNK)
    try:
        for at in range(0, size, CHUNK):
            os.pwrite(number, data[: min(CHUNK, size - at)], at)
        os.fsync(number)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise InputError(f"cannot be filled: {reason_of(error)}", where=path) from error
        raise


def _direct(path: str, made: os.stat_result) -> int | None:
    """The same file, without the page cache; None where its file system has no such reads."""
    try:
        number = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None
    found = os.fstat(number)
    buffer = mmap.mmap(-1, BLOCK)
    try:
        if (found.st_dev, found.st_ino) == (made.st_dev, made.st_ino) and os.preadv(number, [buffer], 0):
            return number
    except OSError:
        pass
    finally:
        buffer.close()
    os.close(number)
    return None


def _remove(path: str, made: os.stat_result) -> None:
    """Remove the file that was made, and no other that took its name."""
    with contextlib.suppress(OSError):
        found = os.lstat(path)
        if (found.st_dev, found.st_ino) == (made.st_dev, made.st_ino):
            Path(path).unlink()


def replay(trace: BlockTrace, number: int, size: int, *, workers: int, direct: bool) -> ReplayRun:
    """Send a trace's I/Os to a file, whose length stands for the addressed space.

    Args:
        number: descriptor of the file.
        size: length of the file, bytes.
        workers: most I/Os in flight.
        direct: whether the descriptor leaves out the page cache.

    Raises:
        OSError: the device reports an error.
    """
    offsets, sizes = placed(trace, size)
    deadlines, reads = trace.t_s.tolist(), trace.read.tolist()
    sent, ended = np.zeros(len(trace)), np.zeros(len(trace))
    take, failures = itertools.count(), list[BaseException]()
    widest = max(sizes, default=BLOCK)
    begun = time.monotonic() + 0.02

    def work() -> None:
        buffer = mmap.mmap(-1, widest)
        view = memoryview(buffer)
        view[:] = os.urandom(min(widest, CHUNK)) * (widest // min(widest, CHUNK)) + bytes(
            widest % min(widest, CHUNK)
        )
        try:
            while not failures and (at := next(take)) < len(deadlines):
                wait = begun + deadlines[at] - time.monotonic()
                if wait > 0:
                    time.sleep(wait)
                sent[at] = time.monotonic() - begun
                part = view[: sizes[at]]
                if reads[at]:
                    os.preadv(number, [part], offsets[at])
                else:
                    os.pwritev(number, [part], offsets[at])
                ended[at] = time.monotonic() - begun
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            failures.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(trace)))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        failures.append(error)
        raise
    if failures:
        raise failures[0]
    return ReplayRun(
        latency_s=ended - trace.t_s,
        late_s=np.maximum(sent - trace.t_s, 0.0),
        read=trace.read,
        duration_s=float(ended.max()),
        asked_per_s=(len(trace) - 1) / trace.duration_s if trace.duration_s > 0 else 0.0,
        direct=direct,
    )


def placed(trace: BlockTrace, size: int) -> tuple[list[int], list[int]]:
    """Offsets and sizes within a file: each volume gets its share of the length, and keeps its shape.

    Args:
        size: length of the file, bytes.
    """
    volumes = len(trace.volumes)
    low = np.full(volumes, np.iinfo(np.int64).max)
    high = np.zeros(volumes, dtype=np.int64)
    np.minimum.at(low, trace.volume, trace.start)
    np.maximum.at(high, trace.volume, trace.end)
    spans = np.maximum(high - np.minimum(low, high), 1).astype(np.float64)
    factor = min(1.0, size / float(spans.sum()))
    begins = np.concatenate(([0.0], np.cumsum(spans * factor)))[:-1]
    within = (trace.start - low[trace.volume]) * factor
    sizes = np.minimum(-(-trace.size // BLOCK) * BLOCK, size // BLOCK * BLOCK)
    offsets = ((begins[trace.volume] + within) // BLOCK).astype(np.int64) * BLOCK
    offsets = np.clip(offsets, 0, np.maximum((size - sizes) // BLOCK * BLOCK, 0))
    if factor < 1:  # what goes on where the I/O before it ended still does
        offsets = np.where(trace.sequential, _continued(trace, offsets, sizes, size), offsets)
    return offsets.tolist(), sizes.tolist()


def _continued(trace: BlockTrace, offsets: Ints, sizes: Ints, size: int) -> Ints:
    """(n,) offsets of sequential I/Os: that of the run's first plus the bytes since."""
    order = np.argsort(trace.streams, kind="stable")
    sequential, widths = trace.sequential[order], sizes[order]
    first = np.maximum.accumulate(np.where(sequential, 0, np.arange(len(order))))
    before = np.cumsum(widths) - widths
    found = np.empty(len(order), dtype=np.int64)
    found[order] = offsets[order][first] + before - before[first]
    return np.minimum(found, np.maximum((size - sizes) // BLOCK * BLOCK, 0))
