"""Open-loop replay against one file: made for the replay, filled, and driven at absolute deadlines.

Workers take the I/Os in order, each waits for the deadline of its own and sends it. An I/O whose deadline has
passed when a worker is free is sent at once and counted as late; none is dropped. Latency is counted from the
deadline, so that a stalled device shows in the latencies of all I/Os that waited for it.
"""

from __future__ import annotations

import contextlib
import fcntl
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

from kwiken.apps.console.output import reason_of, room_in
from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.base.errors import InputError

if TYPE_CHECKING:
    from kwiken.storage.trace.block_trace import BlockTrace

BLOCK: Final = 4096  # bytes; offsets and sizes sent are multiples of it
CHUNK: Final = 1 << 20  # bytes written at once when the file is filled
KEPT_FREE: Final = 0.05  # share of a disk's free space that no replay may take
LATE_S: Final = 0.001  # beyond its deadline, from which an I/O counts as late
LONGEST_SLEEP_S: Final = 0.1  # after which a worker looks whether the replay has ended
MAX_BUFFERS: Final = 1 << 30  # bytes of the I/Os in flight
PRIVATE: Final = 0o600


@dataclass(frozen=True, eq=False)
class ReplayRun:
    """Measurements of a replay.

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
    """Make a file and fill it with data.

    Without `keep` the file loses its name as soon as it is made, so that nothing is left of it however the
    program ends.

    Args:
        path: name of the file, which must not exist.
        size: number of bytes to fill.
        keep: whether the file stays.

    Returns:
        Descriptor of the file, and whether it leaves out the page cache.

    Raises:
        InputError: the file exists, or its folder is missing, read only or too full, or its disk fails.
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
    try:
        if not keep:
            _remove(path, os.fstat(number))
        _fill(number, size, path)
        yield number, _leaves_cache_out(number)
    finally:
        os.close(number)


def _fill(number: int, size: int, path: str) -> None:
    data = os.urandom(CHUNK)
    try:
        for at in range(0, size, CHUNK):
            os.pwrite(number, data[: min(CHUNK, size - at)], at)
        os.fsync(number)
    except OSError as error:
        raise InputError(f"cannot be filled: {reason_of(error)}", where=path) from error


def _leaves_cache_out(number: int) -> bool:
    """Turn the page cache off for an open file; returns False where its file system cannot."""
    before = fcntl.fcntl(number, fcntl.F_GETFL)
    buffer = mmap.mmap(-1, BLOCK)
    try:
        fcntl.fcntl(number, fcntl.F_SETFL, before | os.O_DIRECT)
        if os.preadv(number, [buffer], 0):
            return True
    except (OSError, AttributeError):  # AttributeError: a system without O_DIRECT
        pass
    finally:
        buffer.close()
    fcntl.fcntl(number, fcntl.F_SETFL, before)
    return False


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
        InputError: the I/Os in flight need more memory than a replay may take.
        OSError: the device reports an error.
    """
    offsets, sizes = placed(trace, size)
    deadlines, reads = trace.t_s.tolist(), trace.read.tolist()
    sent, ended = np.zeros(len(trace)), np.zeros(len(trace))
    take, failures = itertools.count(), list[BaseException]()
    widest, workers = max(sizes, default=BLOCK), min(workers, len(trace))
    if widest * workers > MAX_BUFFERS:
        raise InputError(
            f"{workers} I/Os in flight of up to {widest / 1e6:.4g} MB need more than {MAX_BUFFERS / 1e9:.3g} "
            "GB of memory; give fewer --workers",
            where="--workers",
        )
    begun = time.monotonic() + 0.02

    def wait_for(moment: float) -> None:
        while not failures and (wait := moment - time.monotonic()) > 0:
            time.sleep(min(wait, LONGEST_SLEEP_S))

    def work() -> None:
        try:
            view = _random_bytes(widest)
            while not failures and (at := next(take)) < len(deadlines):
                wait_for(begun + deadlines[at])
                if failures:
                    return
                sent[at] = time.monotonic() - begun
                part = view[: sizes[at]]
                if reads[at]:
                    os.preadv(number, [part], offsets[at])
                else:
                    os.pwritev(number, [part], offsets[at])
                ended[at] = time.monotonic() - begun
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            failures.append(error)

    _run_all([threading.Thread(target=work, daemon=True) for _ in range(workers)], failures)
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


def _random_bytes(length: int) -> memoryview:
    """Memory that starts with a page, as direct I/O needs, full of bytes that do not compress."""
    view = memoryview(mmap.mmap(-1, length))
    some = os.urandom(min(length, CHUNK))
    view[:] = some * (length // len(some)) + bytes(length % len(some))
    return view


def _run_all(threads: list[threading.Thread], failures: list[BaseException]) -> None:
    """Run threads to their ends, which a failure brings about.

    No thread goes on when this returns or raises: the caller closes the descriptor, whose number another file
    may get then.
    """
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:
        failures.append(error)
        for thread in threads:
            if thread.ident is not None:
                thread.join()
        raise


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
