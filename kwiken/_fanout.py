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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken._pool import Pool
from kwiken._profile import Floats

MOST_CELLS = 1 << 20  # calls that a curve looks at; of larger stages every k-th request is taken
MOST_POOL = 1 << 16  # values of a copy's law that are kept apart,
LEAST_POOL = 1 << 12  # also at the widest fan-outs,
MOST_TABLE = 1 << 23  # where values times ranks stay below this


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
        ranked = -np.sort(-matrix, axis=1)  # slowest first, NaN last
        return cls(tuple(_ascending(ranked[:, e]) for e in range(ranked.shape[1])), len(matrix))


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
    for column in calls.columns:
        if not len(column) or column[-1] <= after_ms.min():
            break  # further ranks are faster still
        table = _Table.of(law.values, before, before * share)
        _add_late(first, second, column, law.values, table, after_ms)
        before = before * share
    return first / max(1, calls.requests), second / max(1, calls.requests)


def _law(copies: Pool, width: int) -> Pool:
    """The copies' law, small enough for a table by rank: ties merged, and thinned at wide fan-outs."""
    if width == 1:
        return copies.thinned(MOST_POOL)
    return copies.merged().thinned(min(MOST_POOL, max(LEAST_POOL, MOST_TABLE // width)))


@dataclass(frozen=True)
class _Table:
    """What one rank adds, by the number j of pool values below u: `low + late u`, `low2 + late u²`."""

    low: Floats
    low2: Floats
    late: Floats

    @classmethod
    def of(cls, values: Floats, before: Floats, power: Floats) -> _Table:
        mass = np.diff(power) - np.diff(before)
        low, low2 = np.zeros(len(power)), np.zeros(len(power))
        np.cumsum(mass * values, out=low[1:])
        np.cumsum(mass * values * values, out=low2[1:])
        return cls(low, low2, before - power)


def _not_late(calls: RankedCalls, after_ms: Floats) -> tuple[Floats, Floats]:
    """Sums over requests of Z and Z², as if every late request ended at the time-out."""
    slowest = calls.columns[0]
    on_time = np.searchsorted(slowest, after_ms, side="right")
    late = len(slowest) - on_time
    sums = np.concatenate(([0.0], np.cumsum(slowest)))
    squares = np.concatenate(([0.0], np.cumsum(slowest * slowest)))
    at = np.where(late > 0, after_ms, 0.0)
    return sums[on_time] + late * at, squares[on_time] + late * at * at


def _add_late(
    first: Floats, second: Floats, column: Floats, values: Floats, table: _Table, after_ms: Floats
) -> None:
    """Add one rank's late calls to the sums, for every time-out."""
    for g, (age, start) in enumerate(
        zip(after_ms.tolist(), np.searchsorted(column, after_ms, side="right").tolist(), strict=True)
    ):
        if start == len(column):
            continue
        over = column[start:] - age
        among_themselves = age == 0 and np.array_equal(column, values)
        j = _first_of_ties(over, start) if among_themselves else values.searchsorted(over)
        late = table.late[j] * over
        more = float(table.low[j].sum() + late.sum())
        first[g] += more
        squares = np.einsum("i,i->", late, over)  # BLAS would start threads that outlast so short a sum
        second[g] += 2.0 * age * more + float(table.low2[j].sum() + squares)


def _first_of_ties(ascending: Floats, start: int) -> NDArray[np.int64]:
    """Where a sorted array's values, its first at `start`, begin: `searchsorted` of an array in itself."""
    index = np.arange(start, start + len(ascending))
    index[1:][ascending[1:] == ascending[:-1]] = 0
    return np.maximum.accumulate(index)
