"""Responders of a fan-out by query: answer times and utilities of the answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError


@dataclass(frozen=True)
class Responders:
    """Latencies of a fan-out's calls in ascending order, with the utility still missing after each.

    Attributes:
        latency_ms: (q, n) ascending along a row, milliseconds; NaN, at the end, stands for no call.
        count: (q,): number of calls of each query.
        missing: (q, n + 1): share of the query's utility lost when only the first j calls have answered; None
            where all calls have equal utility: then it is the share of calls.
    """

    latency_ms: Floats
    count: Ints
    missing: Floats | None = None

    @classmethod
    def of(cls, latency_ms: Floats, worth: Floats | None = None) -> Responders:
        """Sort the calls of every query.

        Args:
            latency_ms: (q, n) in any order, milliseconds; NaN for no call.
            worth: (q, n): utility of each answer, as a weight relative to the query's other answers; None for
                equal ones. Explicit ranking (Kwiken section 5.3) is 1 for the responder with the best answer
                and 0 for the others.

        Raises:
            InputError: for negative or infinite latencies or utilities, a query without calls, or shapes that
                differ.
        """
        calls = np.asarray(latency_ms, dtype=float)
        if calls.ndim != 2 or not calls.size:  # noqa: PLR2004 - queries by responders
            raise InputError("responders' latencies must be a matrix, a row a query")
        there = ~np.isnan(calls)
        if not there.any(axis=1).all():
            raise InputError("every query needs at least one responder")
        if not (np.isfinite(calls[there]).all() and (calls[there] >= 0).all()):
            raise InputError("latencies must be finite numbers >= 0")
        count = there.sum(axis=1).astype(np.int64)
        if worth is None:
            return cls(np.sort(calls, axis=1), count)
        order = np.argsort(calls, axis=1, kind="stable")
        return cls(np.take_along_axis(calls, order, axis=1), count, _missing(calls, worth, order))

    def __len__(self) -> int:
        return len(self.count)

    def first(self, queries: int) -> Responders:
        """The first queries, as many as given."""
        return self.rows(slice(queries))

    def rows(self, which: slice | Ints) -> Responders:
        """Subset of the queries.

        Args:
            which: (m,) indices of the queries, or a slice.
        """
        missing = None if self.missing is None else self.missing[which]
        return Responders(self.latency_ms[which], self.count[which], missing)

    @property
    def first_ms(self) -> Floats:
        """(q,): time of the first answer, milliseconds."""
        return np.asarray(self.latency_ms[:, 0])

    @property
    def last_ms(self) -> Floats:
        """(q,): time of the last answer, milliseconds."""
        return self.order_statistic(self.count)

    def order_statistic(self, rank: Ints) -> Floats:
        """(q,): time of the `rank`-th answer of each query, milliseconds; ranks (q,) from 1."""
        return np.asarray(self.latency_ms[np.arange(len(self)), np.clip(rank, 1, self.count) - 1])

    def rank_at(self, share: float) -> Ints:
        """(q,): number of responders that make up a share of each query's, rounded up."""
        # Rounded first: .998 x 1000 must give 998, not 999 by an error of the last bit.
        return np.ceil(np.round(self.count * share, 9)).astype(np.int64)

    @property
    def weights(self) -> Floats:
        """(q, n): utility lost with each responder, a share of its query's; 0 where there is none."""
        if self.missing is not None:
            return np.asarray(-np.diff(self.missing, axis=1))
        return np.where(np.isnan(self.latency_ms), 0.0, 1.0 / self.count[:, None])

    def loss(self, stop_ms: Floats) -> Floats:
        """(q,): utility lost when each query stops at its time; an answer at exactly that time counts."""
        arrived = self._arrived(stop_ms)
        if self.missing is None:
            return np.asarray((self.count - arrived) / self.count)
        return np.asarray(self.missing[np.arange(len(self)), arrived])

    def _arrived(self, stop_ms: Floats) -> Ints:
        """Number of answers by each query's stop: a binary search of all rows at once."""
        low = np.zeros(len(self), dtype=np.int64)
        high = self.count.copy()
        rows = np.arange(len(self))
        for _ in range(int(self.latency_ms.shape[1]).bit_length()):
            middle = (low + high) // 2
            open_ = low < high
            inside = open_ & (self.latency_ms[rows, np.minimum(middle, self.count - 1)] <= stop_ms)
            low = np.where(inside, middle + 1, low)
            high = np.where(open_ & ~inside, middle, high)
        return low


def _missing(calls: Floats, worth: Floats, order: NDArray[np.intp]) -> Floats:
    if worth.shape != calls.shape:
        raise InputError(f"worth has shape {worth.shape}, the latencies have {calls.shape}")
    there = ~np.isnan(calls)
    value = np.where(there, worth, 0.0)
    if not (np.isfinite(value).all() and (value >= 0).all()):
        raise InputError("an answer's worth must be a finite number >= 0")
    total = value.sum(axis=1, keepdims=True)
    # A query whose answers have no utility loses none.
    ranked = np.take_along_axis(
        np.divide(value, total, out=np.zeros_like(value), where=total > 0), order, axis=1
    )
    left = np.zeros((len(calls), calls.shape[1] + 1))
    left[:, :-1] = np.cumsum(ranked[:, ::-1], axis=1)[:, ::-1]
    return left
