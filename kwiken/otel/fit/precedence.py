"""Which stage comes after which, from when their calls ran: the sequence rule, and its reduction."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken.otel.fit.repeated_calls import SHARE
from kwiken.otel.read import Bools

Floats = NDArray[np.float64]

OVERLAP: Final = 0.01  # of the shorter of two calls, and a nanosecond: what clocks and rounding may do
_WORK: Final = 500_000_000


def precedence(start: Floats, end: Floats) -> Bools:
    """Which stages never run before others have ended.

    Args:
        start: (requests, stages): when each stage's first call began, nanoseconds; NaN where not called.
        end: (requests, stages): when its last call ended.

    Returns:
        (stages, stages): True at (a, b) where b begins after a has ended in at least 99% of the requests that
        hold both. Beyond half a billion comparisons, an evenly spaced part of the requests is looked at.
    """
    requests, stages = start.shape
    step = max(1, -(-requests * stages * stages // _WORK))
    start, end = start[::step], end[::step]
    there = ~np.isnan(start)
    length = end - start
    before = np.zeros((stages, stages), np.bool_)
    for b in range(stages):
        both = (there & there[:, b : b + 1]).sum(axis=0)
        allowed = OVERLAP * np.fmin(length, length[:, b : b + 1]) + 1.0
        holds = (end - start[:, b : b + 1] <= allowed).sum(axis=0)
        before[:, b] = (both > 0) & (holds >= SHARE * both)
        before[b, b] = False
    return before


def acyclic(before: Bools, weight: Floats) -> tuple[Bools, int]:
    """A relation without its cycles, which requests of different shape can make.

    Args:
        before: (stages, stages).
        weight: (stages, stages): of each pair; the lightest pair of a cycle goes.

    Returns:
        The relation, and how many pairs went.
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
    """What comes before what, over any number of steps."""
    reach = before.copy()
    while True:
        further = reach | _product(reach, reach)
        if (further == reach).all():
            return reach
        reach = further


def reduction(before: Bools) -> Bools:
    """The fewest edges with the same closure; an acyclic relation has one such set (Aho et al. 1972)."""
    reach = closure(before)
    return reach & ~_product(reach, reach)


def _product(a: Bools, b: Bools) -> Bools:
    return np.asarray(a.astype(np.float32) @ b.astype(np.float32) > 0)
