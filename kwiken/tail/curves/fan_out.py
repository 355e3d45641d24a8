"""Exact moments of a fan-out's slowest call when each late call has its own independent copy.

The source treats a stage with one call X and one copy Y (Kwiken section 5.2.2): the stage takes `Z = X` up to
the time-out `T`, and `min(X, T + Y)` beyond. Here every shard's call races its own copy, and the stage ends
with the slowest shard.

For one request let `x_1 >= x_2 >= ...` be its calls, slowest first. For `t >= T` the stage has ended by `t`
if the copies of all calls that take longer than `t` have, so `P(Z <= t) = F(t - T)^e` with `e` such calls and
`F` the distribution of a copy. Integrating `1 - F^e` over the interval where exactly `e` calls are late gives

    E[Z] = T + sum over late calls, ranked e, of A_e(x_e - T) - A_(e-1)(x_e - T),
    A_e(u) = E[min(u, slowest of e copies)],        A_0 = 0,

and likewise for squares. Each late call then contributes one term that depends on its rank alone: one lookup
in a table per rank. If each copy is sent with probability q only, `F` becomes `q F`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.model.profile.distribution import EmpiricalDistribution

MAX_CALLS = 1 << 20  # calls that a curve is computed from; of larger stages every k-th request is taken
MAX_VALUES = 1 << 16  # distinct values of a copy's distribution; larger ones are thinned
MIN_VALUES = 1 << 12  # distinct values that even the widest fan-outs keep
MAX_TABLE_CELLS = 1 << 23  # values times ranks, which thins the distributions of wide fan-outs
MIN_LOOKUPS_PER_VALUE = 1.0  # late calls per value of the distribution from which a rank table is faster
NEGLIGIBLE_PROBABILITY = 1e-18  # adds nothing to a sum of doubles
MAX_LOOKUPS_PER_BATCH = 1 << 13  # late calls of several time-outs looked up together
MAX_BUCKETS = 1 << 15  # of a table of ranks
MIN_VALUES_FOR_TABLE = 1 << 11  # below this bisection is as fast
MAX_VALUES_PER_BUCKET = 15  # where ties put more in one bucket, bisection is as fast
LINEAR_PART = 8  # the lowest eighth of the values has buckets of equal width, the rest of equal ratio


@dataclass(frozen=True)
class RankedCalls:
    """Calls of a stage by rank within their request.

    Attributes:
        columns: by rank e, slowest first: the e-th slowest call of every request that has one, ascending,
            milliseconds.
        requests: number of requests, including those without any call.
    """

    columns: tuple[Floats, ...]
    requests: int

    @classmethod
    def of(cls, calls: Floats) -> RankedCalls:
        """Ranked calls of (n,) or (n, width) latencies, milliseconds; NaN for no call.

        Memory is bounded: of more than `MAX_CALLS` calls every k-th request is used.
        """
        matrix = calls.reshape(len(calls), -1)
        matrix = matrix[:: max(1, -(-matrix.size // MAX_CALLS))]
        if matrix.shape[1] == 1:
            return cls((_ascending(matrix[:, 0]),), len(matrix))
        ranked = -np.sort(-matrix, axis=1).T  # slowest first, NaN last
        counts = (~np.isnan(ranked)).sum(axis=1).tolist()
        columns = np.sort(ranked, axis=1)
        return cls(tuple(column[:count] for column, count in zip(columns, counts, strict=True)), len(matrix))

    @cached_property
    def sums(self) -> Floats:
        """(2, k + 1): sums of the k fastest requests' latencies, ms, and of their squares, ms²."""
        slowest = self.columns[0]
        sums = np.zeros((2, len(slowest) + 1))
        np.cumsum(slowest, out=sums[0, 1:])
        np.cumsum(slowest * slowest, out=sums[1, 1:])
        return sums


def _ascending(values: Floats) -> Floats:
    values = np.sort(values)
    return values[: int(np.searchsorted(values, np.nan))]


def slowest_moments(
    calls: RankedCalls, copies: EmpiricalDistribution, after_ms: Floats, *, probability: float = 1.0
) -> tuple[Floats, Floats]:
    """Mean and mean square of the slowest call, with copies after each of several time-outs.

    Args:
        copies: latency distribution of a copy, independent of the calls.
        after_ms: (g,) time-outs, milliseconds; infinite for no copy.
        probability: share of the late calls that get a copy, above 0 and at most 1.

    Returns:
        (g,) mean, ms, and (g,) mean square, ms², over all requests; a request without calls counts as 0.
        Exact for the given samples. O(k log k) in the number of late calls.
    """
    return RankedCopies.of(copies, len(calls.columns)).slowest(calls, after_ms, probability)


@dataclass(frozen=True)
class RankedCopies:
    """Copies of a stage's calls, with what every time-out needs.

    Attributes:
        values: (k,) latencies of copies, ascending, milliseconds.
        cdf: (k + 1,) share of the copies that are among the first j, from 0 to 1.
    """

    values: Floats
    cdf: Floats

    @classmethod
    def of(cls, copies: EmpiricalDistribution, width: int) -> RankedCopies:
        """Copies of calls with a latency distribution, in fan-outs of a width."""
        distribution = _table_distribution(copies, width)
        return cls(distribution.values, np.concatenate(([0.0], distribution.cdf)))

    @cached_property
    def table(self) -> CopyTable:
        """Contribution of the slowest calls where all late ones get copies."""
        return CopyTable.of(self.values, np.ones(len(self.cdf)), self.cdf)

    @cached_property
    def _ranks(self) -> Ranks | None:
        return Ranks.of(self.values)

    def slowest(self, calls: RankedCalls, after_ms: Floats, probability: float) -> tuple[Floats, Floats]:
        """As `slowest_moments`."""
        if probability < 1 and len(calls.columns) == 1:  # a mixture of calls with and without copies
            sure = np.array(self.slowest(calls, after_ms, 1.0))
            alone = calls.sums[:, -1:] / max(1, calls.requests)
            first, second = alone + probability * (sure - alone)
            return first, second
        first, second = _not_late(calls, after_ms)
        share = probability * self.cdf
        before = np.ones(len(share))
        below = self._lookup(calls.columns[0], after_ms)
        youngest = after_ms.min()
        for rank, column in enumerate(calls.columns):
            if not len(column) or column[-1] <= youngest:
                break  # no call of this rank is late, and further ranks are faster still
            if before[self.values.searchsorted(column[-1] - youngest)] < NEGLIGIBLE_PROBABILITY:
                break  # the copies of all slower calls are almost never this fast, at further ranks even less
            kept = rank == 0 and probability == 1
            table = self.table if kept else CopyTable.of(self.values, before, before * share)
            _add_late(first, second, column, _Ranked(self.values, below), table, after_ms)
            before = before * share
        return first / max(1, calls.requests), second / max(1, calls.requests)

    def _lookup(self, slowest: Floats, after_ms: Floats) -> Callable[[Floats], Ints]:
        """Rank lookup among the values: by a table where there are enough late calls, else by bisection."""
        late = len(slowest) * len(after_ms) - int(slowest.searchsorted(after_ms, side="right").sum())
        table = self._ranks if late > MIN_LOOKUPS_PER_VALUE * len(self.values) else None
        return self.values.searchsorted if table is None else table.below


def _table_distribution(copies: EmpiricalDistribution, width: int) -> EmpiricalDistribution:
    """Distribution of copies small enough for a table per rank: ties merged, thinned at wide fan-outs."""
    if width == 1:
        return copies.thinned(MAX_VALUES)
    return copies.merged().thinned(min(MAX_VALUES, max(MIN_VALUES, MAX_TABLE_CELLS // width)))


@dataclass(frozen=True)
class _Ranked:
    """Values of a copy's distribution, (k,) ascending, and their rank lookup."""

    values: Floats
    below: Callable[[Floats], Ints]


@dataclass(frozen=True)
class CopyTable:
    """Contribution of one rank, by the number j of copies below u: `low + late u`, and `low2 + late u²`.

    Attributes:
        low: (..., k + 1) sum of the first j copies, each times its weight, ms.
        low2: (..., k + 1) sum of their squares, each times its weight, ms².
        late: (..., k + 1) weight of the copies that are not among the first j.
    """

    low: Floats
    low2: Floats
    late: Floats

    @classmethod
    def of(cls, values: Floats, before: Floats, power: Floats) -> CopyTable:
        """Table of one rank e, from the probabilities that e - 1 and that e copies are among the first j.

        Args:
            values: (..., k) latencies of copies, ascending, milliseconds.
            before: (..., k + 1) probability for e - 1 copies.
            power: (..., k + 1) probability for e copies.
        """
        late = before - power
        sums = late[..., :-1] - late[..., 1:]
        low, low2 = np.zeros(late.shape), np.zeros(late.shape)
        sums *= values
        np.cumsum(sums, axis=-1, out=low[..., 1:])
        sums *= values
        np.cumsum(sums, axis=-1, out=low2[..., 1:])
        return cls(low, low2, late)


def _not_late(calls: RankedCalls, after_ms: Floats) -> tuple[Floats, Floats]:
    """Sums over requests of Z and Z² with every late request counted as ending at the time-out."""
    slowest, (once, squared) = calls.columns[0], calls.sums
    on_time = slowest.searchsorted(after_ms, side="right")
    late = len(slowest) - on_time
    at = np.where(late > 0, after_ms, 0.0)
    return once[on_time] + late * at, squared[on_time] + late * at * at


def _add_late(
    first: Floats, second: Floats, column: Floats, ranks: _Ranked, table: CopyTable, after_ms: Floats
) -> None:
    """Add the contributions of one rank's late calls to the sums (in place), for every time-out."""
    starts = np.searchsorted(column, after_ms, side="right")
    for some in _groups((len(column) - starts).tolist()):
        ages = after_ms[some]
        times_past = [  # by time-out: what its late calls take beyond it
            column[start:] - age for start, age in zip(starts[some].tolist(), ages.tolist(), strict=True)
        ]
        at = np.cumsum([0, *map(len, times_past[:-1])])
        past = times_past[0] if len(times_past) == 1 else np.concatenate(times_past)
        # Copies sent at once and distributed as the calls are: the calls are looked up in themselves.
        in_itself = ages[0] == 0 and len(times_past) == 1 and np.array_equal(column, ranks.values)
        j = _first_of_ties(past, int(starts[some[0]])) if in_itself else ranks.below(past)
        late = table.late.take(j)
        late *= past
        more = np.add.reduceat(table.low.take(j) + late, at)
        late *= past
        first[some] += more
        second[some] += 2.0 * ages * more + np.add.reduceat(table.low2.take(j) + late, at)


def _groups(late: list[int]) -> Iterator[list[int]]:
    """Indices of the time-outs with late calls, in groups of about `MAX_LOOKUPS_PER_BATCH` late calls."""
    group: list[int] = []
    held = 0
    for g, count in enumerate(late):
        if group and held + count > MAX_LOOKUPS_PER_BATCH:
            yield group
            group, held = [], 0
        if count:
            group.append(g)
            held += count
    if group:
        yield group


def _first_of_ties(ascending: Floats, start: int) -> Ints:
    """First index of each value among its ties, from `start`: `searchsorted` of an array in itself."""
    index = np.arange(start, start + len(ascending))
    index[1:][ascending[1:] == ascending[:-1]] = 0
    return np.maximum.accumulate(index)


@dataclass(frozen=True)
class Ranks:
    """Sorted values with a table of their ranks: counts the values below many numbers faster than bisection.

    The branches of a bisection are random, so the processor mispredicts half of them, and that takes most of
    its time. Here a table gives the rank up to a few values, and a few branchless steps, the same for all
    numbers, find the rest.

    The bits of a positive float, read as an integer, grow about as its logarithm. The upper bits of a value
    plus `offset_ms` are therefore its bucket. Rounding is monotonic, so a smaller value is never in a higher
    bucket than a larger one.

    Attributes:
        values: (k,) values, ascending, 0 or more; milliseconds or any unit.
        padded: (m,) the values followed by infinities, in the same unit.
        starts: (b,) number of values in all buckets before each bucket.
        steps: powers of 2, descending, whose sum is at least the number of values in any bucket.
        offset_ms: offset added to a value before its bucket is computed, in the values' unit.
        shift: number of lower bits that are dropped.
    """

    values: Floats
    padded: Floats
    starts: Ints
    steps: tuple[int, ...]
    offset_ms: float
    shift: int
    first: int

    @classmethod
    def of(cls, values: Floats) -> Ranks | None:
        """Table of ascending values; None where bisection is as fast.

        Args:
            values: (k,) values, ascending, finite, 0 or more; milliseconds or any unit.
        """
        if len(values) < MIN_VALUES_FOR_TABLE or not values[0] >= 0:
            return None
        offset = float(values[len(values) // LINEAR_PART])
        least, most = float(values[0]) + offset, float(values[-1]) + offset
        if not (offset > 0 and np.isfinite(most)):
            return None
        low, high = np.array([least, most]).view(np.int64).tolist()
        shift = max(0, (high - low).bit_length() - MAX_BUCKETS.bit_length() + 1)
        first = low >> shift
        count = np.bincount(((values + offset).view(np.int64) >> shift) - first)
        fullest = int(count.max())
        if fullest > MAX_VALUES_PER_BUCKET:
            return None
        steps = tuple(1 << bit for bit in reversed(range(fullest.bit_length())))
        starts = np.zeros(len(count) + 1, np.int64)
        np.cumsum(count, out=starts[1:])
        padded = np.concatenate((values, np.full(2 * MAX_VALUES_PER_BUCKET, np.inf)))
        return cls(values, padded, starts, steps, offset, shift, first)

    def below(self, numbers: Floats) -> Ints:
        """(m,): number of values smaller than each number, as `searchsorted` counts them.

        Args:
            numbers: (m,) numbers, finite, 0 or more, in the values' unit.
        """
        bucket = (numbers + self.offset_ms).view(np.int64)
        bucket >>= self.shift
        bucket -= self.first
        found: Ints = self.starts.take(bucket, mode="clip")
        for step in self.steps:
            found += (self.padded[step - 1 :].take(found) < numbers) * step
        return found
