"""Counts of an arm of a trial: answered requests by latency, and requests that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, log2
from typing import Final

PER_OCTAVE: Final = 16  # buckets per factor of 2, as in the runtime's histograms: each is 4.4% wide
MS_PER_S: Final = 1000.0
P99: Final = 0.99


def bucket_of(latency_ms: float) -> int:
    """Number of the bucket that holds a latency above 0, in milliseconds."""
    index = log2(latency_ms / MS_PER_S) * PER_OCTAVE
    whole = int(index // 1)
    return whole - 1 if whole == index else whole


def upper_ms(bucket: float) -> float:
    """Upper edge of a bucket, milliseconds; latencies in it are above the edge of the bucket before."""
    return float(MS_PER_S * 2.0 ** ((bucket + 1) / PER_OCTAVE))


@dataclass(frozen=True, kw_only=True)
class ArmCounts:
    """Requests of one arm since the present setting came into force.

    Attributes:
        cells: number of answered requests by bucket of latency; bucket i holds latencies from above
            2**(i/16) to 2**((i+1)/16) seconds.
        failed: number of requests without an answer; each counts as slower than any that was answered.
    """

    cells: Mapping[int, int] = field(default_factory=dict)
    failed: int = 0

    @property
    def requests(self) -> int:
        """Number of requests, answered or failed."""
        return sum(self.cells.values()) + self.failed

    def beyond(self, bucket: int) -> int:
        """Number of requests slower than every latency of a bucket."""
        return sum(count for cell, count in self.cells.items() if cell > bucket) + self.failed

    def share_beyond(self, latency_ms: float) -> float:
        """Share of the requests slower than a latency, with its bucket divided evenly in the logarithm.

        Args:
            latency_ms: latency above 0, milliseconds.
        """
        place = log2(latency_ms / MS_PER_S) * PER_OCTAVE
        total = self.requests
        if not total:
            return 0.0
        slower = float(self.failed)
        for cell, count in self.cells.items():
            slower += count * min(1.0, max(0.0, cell + 1 - place))
        return slower / total

    def quantile_ms(self, share: float) -> float:
        """Latency that a share of the requests, 0 to 1, do not exceed, milliseconds.

        Infinite where it is that of a failed request, and 0 without requests.
        """
        wanted, seen = share * self.requests, 0
        for cell in sorted(self.cells):
            count = self.cells[cell]
            if count and seen + count >= wanted:
                return upper_ms(cell - 1 + max(0.0, wanted - seen) / count)
            seen += count
        return inf if self.failed else 0.0

    def plus(self, other: ArmCounts) -> ArmCounts:
        """Requests of both arms together."""
        cells = dict(self.cells)
        for cell, count in other.cells.items():
            cells[cell] = cells.get(cell, 0) + count
        return ArmCounts(cells=cells, failed=self.failed + other.failed)

    def since(self, before: ArmCounts) -> ArmCounts:
        """Requests that came after an earlier count of the same arm; all of them where it began anew.

        Args:
            before: the earlier count of the same arm.
        """
        if before.failed > self.failed or any(
            count > self.cells.get(cell, 0) for cell, count in before.cells.items()
        ):
            return self
        cells = {cell: count - before.cells.get(cell, 0) for cell, count in self.cells.items()}
        return ArmCounts(
            cells={cell: count for cell, count in cells.items() if count}, failed=self.failed - before.failed
        )
