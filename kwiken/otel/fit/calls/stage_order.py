"""Precedence of stages, inferred from the times of their calls, and its transitive reduction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kwiken.otel.fit.calls.repeated_calls import MIN_SHARE
from kwiken.otel.read.columns import Bools, Ints

Floats = NDArray[np.float64]

MAX_OVERLAP: Final = 0.01  # of the shorter call, plus a nanosecond: an error of clocks and rounding
_MAX_COMPARISONS: Final = 500_000_000
REQUESTS_AT_ONCE: Final = 16_384  # looked at together, so that memory does not grow with their number


class StageOrder(NamedTuple):
    """Order of k stages, by the times of their calls.

    Attributes:
        start: (k,) mean start of each stage's first call, nanoseconds after its request's start.
        before: (k, k); True at (a, b) if b starts after a has ended in 99% of the requests with both.
        together: (k, k) number of requests that called both stages.
    """

    start: Floats
    before: Bools
    together: Floats


def order_in_time(parts: Iterable[tuple[Floats, Floats]], tick: Floats, requests: int) -> StageOrder:
    """Find the order of stages.

    Args:
        parts: for some requests after another, (requests, stages) start of each stage's first call and end of
            its last call, nanoseconds; NaN if not called.
        tick: (stages,) resolution of the clock that wrote the times, nanoseconds; 0 if it is fine. An overlap
            up to the tick does not count, unless the two began at the same tick.
        requests: number of requests in all parts. Beyond half a billion comparisons, evenly spaced ones are
            compared.
    """
    stages = len(tick)
    step = max(1, -(-requests * stages * stages // _MAX_COMPARISONS))
    together, started = np.zeros((stages, stages)), np.zeros(stages)
    both, holds = np.zeros((stages, stages), np.int64), np.zeros((stages, stages), np.int64)
    done = 0
    for start, end in parts:
        there = (~np.isnan(start)).astype(np.float64)
        together += there.T @ there
        started += np.nansum(start, axis=0)
        some = slice(-done % step, None, step)
        seen, held = _in_turn(start[some], end[some], tick)
        both += seen
        holds += held
        done += len(start)
    before: Bools = (both > 0) & (holds >= MIN_SHARE * both)
    np.fill_diagonal(before, False)
    return StageOrder(started / together.diagonal(), before, together)


def _in_turn(start: Floats, end: Floats, tick: Floats) -> tuple[Ints, Ints]:
    """(stages, stages) each: requests with both stages, and those in which the second comes after the first.

    Arguments are those of one part of `order_in_time`.
    """
    stages = start.shape[1]
    there = ~np.isnan(start)
    length = end - start
    both, holds = np.empty((stages, stages), np.int64), np.empty((stages, stages), np.int64)
    for b in range(stages):
        allowed = MAX_OVERLAP * np.fmin(length, length[:, b : b + 1]) + 1.0
        overlap = end - start[:, b : b + 1]
        blurred = (overlap <= np.maximum(tick, tick[b])) & (start < start[:, b : b + 1])
        both[:, b] = (there & there[:, b : b + 1]).sum(axis=0)
        holds[:, b] = ((overlap <= allowed) | blurred).sum(axis=0)
    return both, holds


def acyclic(before: Bools, weight: Floats) -> tuple[Bools, int]:
    """Remove cycles from a relation; requests of different shapes can make some.

    Args:
        before: (stages, stages); True at (a, b) if a comes before b.
        weight: (stages, stages) weight of each pair; of a cycle, the lightest pair is removed.

    Returns:
        The relation without cycles, and the number of pairs removed.
    """
    before = before.copy()
    gone = 0
    while closure(before).diagonal().any():
        import networkx as nx  # rarely needed, and slow to load

        cycle = nx.find_cycle(nx.from_numpy_array(before, create_using=nx.DiGraph))
        a, b = min(((edge[0], edge[1]) for edge in cycle), key=lambda pair: float(weight[pair]))
        before[a, b] = False
        gone += 1
    return before, gone


def closure(before: Bools) -> Bools:
    """Transitive closure of a relation."""
    reach = before.copy()
    while True:
        further = reach | _product(reach, reach)
        if (further == reach).all():
            return reach
        reach = further


def reduction(before: Bools) -> Bools:
    """Transitive reduction: the unique smallest relation with the same closure (Aho et al. 1972).

    Args:
        before: (stages, stages) acyclic relation.
    """
    reach = closure(before)
    return reach & ~_product(reach, reach)


def _product(a: Bools, b: Bools) -> Bools:
    return np.asarray(a.astype(np.float32) @ b.astype(np.float32) > 0)
