"""A simulated disk: a queue in order of arrival, seeks for what does not follow, caches by Che's rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.storage.trace.block_trace import BlockTrace

SLOW_WRITES: Final = 0.01  # share of writes to flash that take long
LINE: Final = 64 << 10  # bytes of a line of a cache


@dataclass(frozen=True, kw_only=True)
class DiskModel:
    """Times of a disk and of the flash in front of it.

    Attributes:
        seek_ms: mean seek, milliseconds.
        rotation_ms: half a rotation, milliseconds.
        mb_s: rate of transfer, a number of MB/s.
        disks: number of disks that share the load.
        cache_read_ms: time of a read that the cache has, milliseconds.
        cache_write_ms: time of a write to the cache, milliseconds.
        cache_slow_ms: time of a slow write to the cache, milliseconds.
    """

    seek_ms: float = 3.0
    rotation_ms: float = 3.0
    mb_s: float = 100.0
    disks: int = 1
    cache_read_ms: float = 0.1
    cache_write_ms: float = 0.3
    cache_slow_ms: float = 5.0

    def service_ms(self, trace: BlockTrace) -> Floats:
        """(n,) time that the disk takes for each I/O, milliseconds."""
        transfer: Floats = trace.size / (self.mb_s * 1e3)
        return np.where(trace.sequential, 0.0, self.seek_ms + self.rotation_ms) + transfer

    def cached_ms(self, read: Bools) -> Floats:
        """(n,) mean time that the cache takes for each I/O that it serves, milliseconds."""
        write = (1 - SLOW_WRITES) * self.cache_write_ms + SLOW_WRITES * self.cache_slow_ms
        return np.where(read, self.cache_read_ms, write)


def served(trace: BlockTrace, disk: DiskModel) -> tuple[Floats, float]:
    """Latency of each I/O in open loop, and the rate at which I/Os end.

    Returns:
        (n,) latencies in milliseconds, and the number of I/Os a second.
    """
    latency = np.empty(len(trace))
    ends = np.empty(len(trace))
    service = disk.service_ms(trace)
    arrival = trace.t_s * 1e3
    # Volumes are spread over the disks, and so are the streams of one volume.
    number = (trace.volume + trace.streams) % disk.disks
    for each in range(disk.disks):
        chosen = np.flatnonzero(number == each)
        if not len(chosen):
            continue
        work = np.cumsum(service[chosen])
        begun = np.maximum.accumulate(arrival[chosen] - (work - service[chosen]))
        ends[chosen] = begun + work
        latency[chosen] = ends[chosen] - arrival[chosen]
    span = float(ends.max() - arrival[0])
    return latency, 1e3 * len(trace) / max(span, 1e-9)


def cached_share(weight: Floats, lines: Floats, capacity: float) -> float:
    """Share of random accesses that an LRU cache serves in the long run, by Che's approximation (2002).

    Args:
        weight: (k,) share of the accesses to each range; accesses within a range are even.
        lines: (k,) number of cache lines of each range.
        capacity: number of lines of the cache.
    """
    if capacity <= 0:
        return 0.0
    if capacity >= lines.sum():
        return 1.0
    rate = weight / np.maximum(lines, 1e-12)
    low, high = 0.0, 1.0
    while (lines * -np.expm1(-rate * high)).sum() < capacity:
        high *= 2.0
        if high > 1e30:  # noqa: PLR2004 - ranges without accesses never fill the cache
            break
    for _ in range(100):
        middle = (low + high) / 2
        if (lines * -np.expm1(-rate * middle)).sum() < capacity:
            low = middle
        else:
            high = middle
    return float((weight * -np.expm1(-rate * high)).sum())
