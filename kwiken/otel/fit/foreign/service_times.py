"""Time of each service in each request: its own part of the request's critical path, from raw spans.

A service's own time is that in which its spans waited for no other service. Time between a client's span and
its server's span is the caller's. The times of one request sum to its latency.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kwiken.otel.fit.calls import MAX_OVERLAP
from kwiken.otel.read import Ints
from kwiken.otel.trace import DETACHED, Forest, ServiceCalls, levels, services_of

Floats = NDArray[np.float64]
NS_PER_MS = 1e6


def service_times(forest: Forest, calls: ServiceCalls, requests: Ints) -> tuple[tuple[str, ...], Floats]:
    """Services on critical paths, and the time of each in each request.

    Backwards from its end, a service waited for the call that ended last; before that for the call that ended
    last before this one began, and so on (CRISP, Zhang et al., ATC 2022, section 4).

    Args:
        forest: forest of all spans.
        calls: its requests and calls between services.
        requests: (n,) rows in the whole forest of the requests' spans.

    Returns:
        k names of services in alphabetical order, and (n, k) milliseconds.
    """
    own, owner = _own_times(calls, requests)
    nodes = np.flatnonzero((owner >= 0) & (own > 0))
    numbers = services_of(forest.names)[calls.forest.spans["op"][nodes]]
    names = {int(n): s for n, (s, _) in zip(services_of(forest.names), forest.names.operations, strict=True)}
    found = sorted(np.unique(numbers).tolist(), key=lambda number: names[number])
    column = np.zeros(len(names), np.int64)
    column[found] = np.arange(len(found))
    times = np.zeros((len(requests), len(found)))
    np.add.at(times, (owner[nodes], column[numbers]), own[nodes] / NS_PER_MS)
    return tuple(names[number] for number in found), times


def _own_times(calls: ServiceCalls, requests: Ints) -> tuple[Ints, Ints]:
    """Own time of each request or call, nanoseconds, and the index of its request; -1 if on no path."""
    tree = calls.forest
    start, end = calls.start, calls.end.copy()
    owner = np.full(len(tree), -1, np.int64)
    owner[calls.places[requests]] = np.arange(len(requests))
    own = np.where(owner >= 0, end - start, 0)
    top = owner >= 0
    waited = (tree.parent >= 0) & ~top & (tree.state & DETACHED == 0)
    for level in levels(tree.depth)[1:]:
        below = level[waited[level]]
        below = below[owner[tree.parent[below]] >= 0]
        rows = below[np.lexsort((-start[below], -end[below], tree.parent[below]))]
        above = tree.parent[rows]
        first = np.ones(len(rows), np.bool_)
        first[1:] = above[1:] != above[:-1]
        since = np.arange(len(rows)) - np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
        until = end.copy()  # of the parent, until which it has not yet been said what it waited for
        length = end - start
        for each in levels(since):
            row, parent = rows[each], above[each]
            last = np.minimum(end[row], until[parent])
            over = end[row] - until[parent] > MAX_OVERLAP * length[row] + 1
            row, parent, last = (column[~over & (last > start[row])] for column in (row, parent, last))
            owner[row] = owner[parent]
            end[row] = last
            own[row] = last - start[row]
            own[parent] -= own[row]
            until[parent] = start[row]
    return own, owner
