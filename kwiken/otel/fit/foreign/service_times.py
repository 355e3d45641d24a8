"""Time of each service in each request: its own part of the request's critical path, from raw spans.

A service's own time is that in which its spans waited for no other service. Time of a call outside of its
servers' spans belongs to the link between the two services: network, connection, queue, and the time between
attempts. The times of one request, of services and links together, sum to its latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kwiken.otel.fit.calls.repeated_calls import clock_ticks
from kwiken.otel.fit.calls.stage_order import MAX_OVERLAP
from kwiken.otel.fit.foreign.calls_by_stage import failures
from kwiken.otel.fit.foreign.retries import merge_retries
from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import DETACHED, Forest, levels, services_of
from kwiken.otel.trace.service_calls import ServiceCalls

Floats = NDArray[np.float64]
NS_PER_MS = 1e6


class TimesByService(NamedTuple):
    """Time of services, and of the links between them, on the critical paths of n requests.

    Attributes:
        services: names of k services, in alphabetical order.
        service_ms: (n, k) own time of each service, milliseconds.
        links: names of the caller and the callee of each of m links, in alphabetical order.
        link_ms: (n, m) time of each link, milliseconds.
    """

    services: tuple[str, ...]
    service_ms: Floats
    links: tuple[tuple[str, str], ...]
    link_ms: Floats


def service_times(forest: Forest, calls: ServiceCalls, requests: Ints) -> TimesByService:
    """Find the services and links on critical paths, and the time of each in each request.

    Backwards from its end, a service waited for the call that ended last; before that for the call that ended
    last before this one began, and so on (CRISP, Zhang et al., ATC 2022, section 4). A call lasts as long as
    its client's span. A link is known only where both spans of a call are.

    Args:
        forest: forest of all spans.
        calls: its requests and calls between services.
        requests: (n,) rows in the whole forest of the requests' spans.
    """
    path = _walk(calls, requests)
    tree = calls.forest
    service = tree.service
    known = {int(n): s for n, (s, _) in zip(services_of(forest.names), forest.names.operations, strict=True)}
    nodes = np.flatnonzero((path.owner >= 0) & (path.own > 0))
    names = sorted(np.unique(service[nodes]).tolist(), key=lambda number: known[number])
    crossed = np.flatnonzero((path.owner >= 0) & (path.link > 0))
    pair = service[tree.parent[crossed]] * (len(known) + 1) + service[crossed]
    pairs = sorted(
        np.unique(pair).tolist(), key=lambda code: tuple(known[n] for n in divmod(code, len(known) + 1))
    )
    return TimesByService(
        tuple(known[number] for number in names),
        _summed(len(requests), path.owner[nodes], service[nodes], names, path.own[nodes]),
        tuple((known[code // (len(known) + 1)], known[code % (len(known) + 1)]) for code in pairs),
        _summed(len(requests), path.owner[crossed], pair, pairs, path.link[crossed]),
    )


def _summed(requests: int, owner: Ints, code: Ints, codes: Sequence[int], spent: Ints) -> Floats:
    """(requests, codes): sums of times, milliseconds, by request and by code in the order of `codes`."""
    times = np.zeros((requests, len(codes)))
    if codes:
        order = np.argsort(codes)
        column = order[np.searchsorted(np.array(codes)[order], code)]
        np.add.at(times, (owner, column), spent / NS_PER_MS)
    return times


class _Path(NamedTuple):
    """Critical paths: for each request or call, the index of its request (-1 on no path), and nanoseconds."""

    owner: Ints
    own: Ints
    link: Ints


def _join_retries(tree: Forest, mine: Bools, start: Ints, end: Ints, idle: Ints, outer_start: Ints) -> Bools:
    """Let the attempt that succeeded stand for all attempts of a call, as a stage does.

    Args:
        tree: all requests and calls.
        mine: (n,) which of them count.
        start: (n,) starts of callees' own spans; changed to that of the first attempt.
        end: (n,) ends of callees' own spans.
        idle: (n,) time between attempts; the time between these is added.
        outer_start: (n,) starts of calls as their callers saw them; changed to that of the first attempt.

    Returns:
        (n,): the failed attempts of these calls.
    """
    found = np.zeros(len(tree), np.bool_)
    rows = np.flatnonzero(mine & (tree.parent >= 0) & (tree.state & DETACHED == 0))
    op = tree.spans["op"][rows].astype(np.int64)
    tried = merge_retries(tree.parent[rows], op, tree.start[rows], tree.end[rows], failures(tree, rows)[1])
    if tried.again.any():
        lost, won = rows[tried.again], rows[tried.by[tried.again]]
        found[lost] = True
        first = start.copy()
        np.minimum.at(first, won, start[lost])
        idle += start - first
        np.subtract.at(idle, won, (end - start - idle)[lost])
        start[:] = first
        outer_start[rows] = tried.start
    return found


def _walk(calls: ServiceCalls, requests: Ints) -> _Path:
    """Walk all critical paths from the requests down, level by level."""
    tree = calls.forest
    start, end, idle = calls.start.copy(), calls.end.copy(), calls.idle.copy()
    # Of the client's span, where there is one.
    outer_start, outer_end = tree.start.copy(), tree.end
    owner = np.full(len(tree), -1, np.int64)
    owner[calls.places[requests]] = np.arange(len(requests))
    failed = _join_retries(tree, tree.inherited(owner) >= 0, start, end, idle, outer_start)
    own = np.where(owner >= 0, end - start, 0)
    tick = clock_ticks(tree.service, tree.spans["op"], start)
    link = np.zeros(len(tree), np.int64)
    top = owner >= 0
    waited = (tree.parent >= 0) & ~top & (tree.state & DETACHED == 0) & ~failed
    for level in levels(tree.depth)[1:]:
        below = level[waited[level]]
        below = below[owner[tree.parent[below]] >= 0]
        rows = below[np.lexsort((-outer_start[below], -outer_end[below], tree.parent[below]))]
        above = tree.parent[rows]
        first = np.ones(len(rows), np.bool_)
        first[1:] = above[1:] != above[:-1]
        since = np.arange(len(rows)) - np.maximum.accumulate(np.where(first, np.arange(len(rows)), 0))
        until = end.copy()  # of the parent, until which it has not yet been said what it waited for
        length = outer_end - outer_start
        for each in levels(since):
            row, parent = rows[each], above[each]
            last = np.minimum(outer_end[row], until[parent])
            begun = np.maximum(outer_start[row], start[parent])
            blurred = np.maximum(MAX_OVERLAP * length[row] + 1, tick[row])
            over = outer_end[row] - until[parent] > blurred
            row, parent, last, begun = (
                column[~over & (last > begun)] for column in (row, parent, last, begun)
            )
            owner[row] = owner[parent]
            end[row] = np.minimum(end[row], last)
            own[row] = np.maximum(end[row] - start[row] - idle[row], 0)
            link[row] = last - begun - own[row]
            own[parent] -= last - begun
            until[parent] = begun
    return _Path(owner, own, link)
