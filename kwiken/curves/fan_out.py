"""Exact moments of a stage's slowest call when late calls are reissued one by one.

A stage of width one is the case of the source (Kwiken section 5.2.2: `Z = X` up to the time-out `T`, then
`min(X, T + Y)`). At a fan-out every shard's call races its own copy and the stage ends with the slowest.

For one request let `x_1 >= x_2 >= ...` be its calls, slowest first. For `t >= T` it is over by `t` if the
copies of all calls that take longer than `t` are, so `P(Z <= t) = F(t - T)^e` with `e` such calls and `F`
the law of a copy. Integrating `1 - F^e` over the stretch where exactly `e` calls are late gives

    E[Z] = T + sum over late calls, ranked e, of A_e(x_e - T) - A_(e-1)(x_e - T),
    A_e(u) = E[min(u, slowest of e copies)],        A_0 = 0,

and likewise for squares. Every late call then counts on its own, whatever its neighbours: one lookup in a
table that depends on its rank alone. With a coin of probability q in front of each copy, `F` becomes `q F`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.arrays import Floats
from kwiken.curves.rank_table import Ranks
from kwiken.profile import Pool

MOST_CELLS = 1 << 20  # calls that a curve looks at; of larger stages every k-th request is taken
MOST_POOL = 1 << 16  # values of a copy's law that are kept apart,
LEAST_POOL = 1 << 12  # also at the widest fan-outs,
MOST_TABLE = 1 << 23  # where values times ranks stay below this
TABLED = 1.0  # late calls of all time-outs for each value of the law, from which a table of ranks pays
NEGLIGIBLE = 1e-18  # chance that adds nothing to a sum of doubles
AT_ONCE = 1 << 13  # late calls of several time-outs that are looked up together


@dataclass(frozen=True)
class RankedCalls:
    """The calls of a stage, by rank within their request.

    Attributes:
        columns: column e, ascending: the e-th slowest call of every request that has one, milliseconds.
        requests: number of requests, those without any call included.
    """

    columns: tuple[Floats, ...]
    requests: int

    @classmethod
    def of(cls, calls: Floats) -> RankedCalls:
        """From (n,) or (n, width) latencies; NaN stands for no call.

        Memory stays bounded: beyond `MOST_CELLS` calls only every k-th request is used.
        """
        matrix = calls.reshape(len(calls), -1)
        matrix = matrix[:: max(1, -(-matrix.size // MOST_CELLS))]
        if matrix.shape[1] == 1:
            return cls((_ascending(matrix[:, 0]),), len(matrix))
        ranked = -np.sort(-matrix, axis=1).T  # slowest first, NaN last
        counts = (~np.isnan(ranked)).sum(axis=1).tolist()
        columns = np.sort(ranked, axis=1)
        return cls(tuple(column[:count] for column, count in zip(columns, counts, strict=True)), len(matrix))


def _ascending(values: Floats) -> Floats:
    values = np.sort(values)
    return values[: int(np.searchsorted(values, np.nan))]


def slowest_moments(
    calls: RankedCalls, copies: Pool, after_ms: Floats, *, probability: float = 1.0
) -> tuple[Floats, Floats]:
    """Mean and mean square of the slowest call, with copies after each of several time-outs.

    Args:
        calls: the primary calls.
        copies: law of a copy's latency, drawn independently of everything.
        after_ms: (g,) time-outs; infinite for no copy.
        probability: share of late calls that get their copy.

    Returns:
        (g,) mean in ms and (g,) mean square in ms², over all requests; one without calls counts as 0.
        Exact for the given samples. O(k log k) in the number of late calls.
    """
    law = _law(copies, len(calls.columns))
    first, second = _not_late(calls, after_ms)
    share = probability * np.concatenate(([0.0], law.cdf))
    before = np.ones(len(share))
    ranks = _ranks(law.values, calls.columns[0], after_ms)
    youngest = after_ms.min()
    for column in calls.columns:
        if not len(column) or column[-1] <= youngest:
            break  # further ranks are faster still
        if before[law.values.searchsorted(column[-1] - youngest)] < NEGLIGIBLE:
            break  # so many copies are never all that fast, and further ranks ask for more and faster ones
        table = _Table.of(law.values, before, before * share)
        _add_late(first, second, column, ranks, table, after_ms)
        before = before * share
    return first / max(1, calls.requests), second / max(1, calls.requests)


def _law(copies: Pool, width: int) -> Pool:
    """The copies' law, small enough for a table by rank: ties merged, and thinned at wide fan-outs."""
    if width == 1:
        return copies.thinned(MOST_POOL)
    return copies.merged().thinned(min(MOST_POOL, max(LEAST_POOL, MOST_TABLE // width)))


@dataclass(frozen=True)
class _Ranked:
    """A copy's law by rank: (k,) values, ascending, and how many of them are smaller than given ones."""

    values: Floats
    below: Callable[[Floats], NDArray[np.int64]]


@dataclass(frozen=True)
class _Table:
    """What one rank adds, by the number j of pool values below u: `low + late u`, `low2 + late u²`."""

    low: Floats
    low2: Floats
    late: Floats

    @classmethod
    def of(cls, values: Floats, before: Floats, power: Floats) -> _Table:
        late = before - power
        mass = late[:-1] - late[1:]
        low, low2 = np.zeros(len(power)), np.zeros(len(power))
        np.cumsum(mass * values, out=low[1:])
        np.cumsum(mass * values * values, out=low2[1:])
        return cls(low, low2, late)


def _not_late(calls: RankedCalls, after_ms: Floats) -> tuple[Floats, Floats]:
    """Sums over requests of Z and Z², as if every late request ended at the time-out."""
    slowest = calls.columns[0]
    on_time = np.searchsorted(slowest, after_ms, side="right")
    late = len(slowest) - on_time
    at = np.where(late > 0, after_ms, 0.0)
    return _sum_of_first(slowest, on_time) + late * at, (
        _sum_of_first(slowest * slowest, on_time) + late * at * at
    )


def _sum_of_first(values: Floats, counts: NDArray[np.int64]) -> Floats:
    """(g,): the sum of so many of the values, from the first."""
    edges, back = np.unique(np.append(counts, 0), return_inverse=True)
    inner = edges[edges < len(values)]
    sums = np.cumsum(np.add.reduceat(values, inner)) if len(inner) else np.zeros(0)
    return np.concatenate(([0.0], sums))[back[:-1]]


def _ranks(values: Floats, slowest: Floats, after_ms: Floats) -> _Ranked:
    """Looks up ranks among the values; by a table where so many calls are late that it pays."""
    late = len(slowest) * len(after_ms) - int(np.searchsorted(slowest, after_ms, side="right").sum())
    table = Ranks.of(values) if late > TABLED * len(values) else None
    return _Ranked(values, values.searchsorted if table is None else table.below)


def _add_late(
    first: Floats, second: Floats, column: Floats, ranks: _Ranked, table: _Table, after_ms: Floats
) -> None:
    """Add one rank's late calls to the sums, for every time-out."""
    starts = np.searchsorted(column, after_ms, side="right")
    for some in _groups((len(column) - starts).tolist()):
        ages = after_ms[some]
        overs = [
            column[start:] - age for start, age in zip(starts[some].tolist(), ages.tolist(), strict=True)
        ]
        at = np.cumsum([0, *map(len, overs[:-1])])
        over = overs[0] if len(overs) == 1 else np.concatenate(overs)
        among_themselves = ages[0] == 0 and len(overs) == 1 and np.array_equal(column, ranks.values)
        j = _first_of_ties(over, int(starts[some[0]])) if among_themselves else ranks.below(over)
        late = table.late.take(j)
        late *= over
        more = np.add.reduceat(table.low.take(j) + late, at)
        late *= over
        first[some] += more
        second[some] += 2.0 * ages * more + np.add.reduceat(table.low2.take(j) + late, at)


def _groups(late: list[int]) -> Iterator[list[int]]:
    """Time-outs that have late calls, in groups of so few that they are looked up at once."""
    group: list[int] = []
    held = 0
    for g, count in enumerate(late):
        if group and held + count > AT_ONCE:
            yield group
            group, held = [], 0
        if count:
            group.append(g)
            held += count
    if group:
        yield group


def _first_of_ties(ascending: Floats, start: int) -> NDArray[np.int64]:
    """Where a sorted array's values, its first at `start`, begin: `searchsorted` of an array in itself."""
    index = np.arange(start, start + len(ascending))
    index[1:][ascending[1:] == ascending[:-1]] = 0
    return np.maximum.accumulate(index)
