"""Precedence of stages, inferred from the times of their calls, and its transitive reduction."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken.otel.fit.calls.repeated_calls import MIN_SHARE
from kwiken.otel.read import Bools

Floats = NDArray[np.float64]

MAX_OVERLAP: Final = 0.01  # of the shorter call, plus a nanosecond: an error of clocks and rounding
_MAX_COMPARISONS: Final = 500_000_000


def precedence(start: Floats, end: Floats, tick: Floats) -> Bools:
    """Pairs of stages of which the second starts after the first has ended.

    Args:
        start: (requests, stages) start of each stage's first call, nanoseconds; NaN if not called.
        end: (requests, stages) end of its last call, nanoseconds; NaN if not called.
        tick: (stages,) resolution of the clock that wrote the times, nanoseconds; 0 if it is fine. An overlap
            up to the tick does not count, unless the two began at the same tick.

    Returns:
        (stages, stages): True at (a, b) if b starts after a has ended in at least 99% of the requests that
        hold both. Beyond half a billion comparisons, evenly spaced requests are used.
    """
    requests, stages = start.shape
    step = max(1, -(-requests * stages * stages // _MAX_COMPARISONS))
    start, end = start[::step], end[::step]
    there = ~np.isnan(start)
    length = end - start
    before = np.zeros((stages, stages), np.bool_)
    for b in range(stages):
        both = (there & there[:, b : b + 1]).sum(axis=0)
        allowed = MAX_OVERLAP * np.fmin(length, length[:, b : b + 1]) + 1.0
        overlap = end - start[:, b : b + 1]
        blurred = (overlap <= np.maximum(tick, tick[b])) & (start < start[:, b : b + 1])
        holds = ((overlap <= allowed) | blurred).sum(axis=0)
        before[:, b] = (both > 0) & (holds >= MIN_SHARE * both)
        before[b, b] = False
    return before


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
