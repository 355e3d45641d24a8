"""A latency histogram on one fixed grid of logarithmic buckets, in plain Python.

All histograms share the grid, so they merge by adding counts, on one machine or many, and lose nothing by it.
The relative error is the same at every size of latency (as in DDSketch, Masson et al. 2019); sketches with
a bounded rank error blur just the few slowest calls where reissuing decides.

`kwiken._histogram_math` adds whole arrays, sums and maxima of independent latencies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from math import log
from typing import Any, Final

from kwiken._errors import InputError

ERROR: Final = 0.01  # relative, of every quantile within the grid
LOWEST_MS: Final = 0.001
HIGHEST_MS: Final = 3_600_000.0
GROWTH: Final = (1 + ERROR) / (1 - ERROR)
PER_LOG: Final = 1 / math.log(GROWTH)
OFFSET: Final = 1 - math.log(LOWEST_MS) * PER_LOG
INNER: Final = math.ceil(math.log(HIGHEST_MS / LOWEST_MS) * PER_LOG)
BUCKETS: Final = INNER + 2  # one below the grid, one above
VERSION: Final = 1

# What a bucket stands for: the value whose relative distance to both of its ends is the same. The first
# stands for 0, so that a stage that was skipped adds nothing; the last for the end of the grid.
VALUES: Final = (
    0.0,
    *(LOWEST_MS * GROWTH**i * (1 + ERROR) for i in range(INNER)),
    HIGHEST_MS,
)


class Histogram:
    """Counts of latencies between 1 us and 1 h, to within 1% (a DDSketch: Masson et al. 2019).

    Latencies up to 1 us count as 0 and those above 1 h as 1 h; `below` and `above` tell how many there were.

    Attributes:
        counts: one number a bucket; whole for latencies that were added, shares of 1 for computed laws.
    """

    __slots__ = ("counts",)

    def __init__(self, latencies_ms: Iterable[float] = ()) -> None:
        self.counts: list[float] = [0] * BUCKETS
        for latency in latencies_ms:
            self.add(latency)

    def add(self, latency_ms: float) -> None:
        """Add one latency.

        Raises:
            InputError: for one that is negative or no number.
        """
        if LOWEST_MS < latency_ms < HIGHEST_MS:
            self.counts[int(log(latency_ms) * PER_LOG + OFFSET)] += 1
        elif latency_ms >= HIGHEST_MS:
            self.counts[-1] += 1
        elif latency_ms >= 0:
            self.counts[0] += 1
        else:
            raise InputError(f"a latency must be a number of ms >= 0, not {latency_ms}")

    def merge(self, other: Histogram) -> None:
        """Add all that another histogram holds."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]

    @property
    def total(self) -> float:
        """How many latencies it holds."""
        return math.fsum(self.counts)

    @property
    def below(self) -> float:
        """How many were at most 1 us, and count as 0."""
        return self.counts[0]

    @property
    def above(self) -> float:
        """How many were 1 h or more, and count as 1 h."""
        return self.counts[-1]

    def quantile(self, share: float) -> float:
        """The smallest latency (ms) that at least this share of those held do not pass; within 1%.

        Raises:
            InputError: for an empty histogram, or a share outside 0 to 1.
        """
        return self.quantiles((share,))[0]

    def quantiles(self, shares: Iterable[float]) -> list[float]:
        """`quantile` of each share, in one pass for shares that ascend.

        Raises:
            InputError: as `quantile`.
        """
        total = self.total
        if not total:
            raise InputError("the histogram is empty")
        found = []
        bucket, seen, last = 0, self.counts[0], -1.0
        for share in shares:
            if not 0 <= share <= 1:
                raise InputError(f"a share must be from 0 to 1, not {share}")
            if share < last:
                bucket, seen = 0, self.counts[0]
            last = share
            rank = share * total * (1 - 1e-12)  # a rounded product must not skip past a whole count
            while (seen < rank or not seen) and bucket < BUCKETS - 1:
                bucket += 1
                seen += self.counts[bucket]
            found.append(VALUES[bucket])
        return found

    @property
    def mean(self) -> float:
        """Mean latency (ms), within 1%; 0 when empty."""
        total = self.total
        return math.fsum(c * v for c, v in zip(self.counts, VALUES, strict=True)) / total if total else 0.0

    @property
    def variance(self) -> float:
        """Variance of the latency (ms²) as far as the buckets tell; 0 when empty."""
        total, mean = self.total, self.mean
        squares = math.fsum(c * (v - mean) ** 2 for c, v in zip(self.counts, VALUES, strict=True) if c)
        return squares / total if total else 0.0

    def __eq__(self, other: object) -> bool:
        return self.counts == other.counts if isinstance(other, Histogram) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Histogram(total={self.total:g}, mean={self.mean:.4g} ms)"

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold: the version, the grid's error and the buckets that are not empty."""
        counts = {str(i): count for i, count in enumerate(self.counts) if count}
        return {"version": VERSION, "error": ERROR, "counts": counts}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, where: str = "histogram") -> Histogram:
        """Read what `to_dict` wrote.

        Args:
            data: its fields.
            where: what to name in errors.

        Raises:
            InputError: for another version or grid, unknown fields, or counts that are none.
        """
        if not isinstance(data, Mapping) or set(data) != {"version", "error", "counts"}:
            raise InputError("must have the fields version, error and counts, and no others", where=where)
        if data["version"] != VERSION or data["error"] != ERROR:
            raise InputError(f"must be of version {VERSION} and error {ERROR}", where=where)
        if not isinstance(data["counts"], Mapping):
            raise InputError("counts must map buckets to numbers", where=where)
        histogram = cls()
        for bucket, count in data["counts"].items():
            histogram.counts[_bucket(bucket, where)] = _count(count, where)
        return histogram


def _bucket(text: object, where: str) -> int:
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 6 and int(text) < BUCKETS:  # noqa: PLR2004 - bounds int()
        return int(text)
    raise InputError(f"counts: a bucket must be from 0 to {BUCKETS - 1}, not {text!r}", where=where)


def _count(value: object, where: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**63:
        return value
    raise InputError(f"counts must be numbers above 0, not {value!r}", where=where)
