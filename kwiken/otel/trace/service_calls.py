"""Calls between services: a forest of trees contracted to one node for each call of another service.

Spans inside a service are its own work at any depth. What remains of a trace is who called whom, when the
caller saw the call begin and end, and which route of the callee did the work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.otel.read import Bools, Ints, columns as c, taken
from kwiken.otel.trace.forest import ROOT, Forest, levels, services_of


@dataclass(frozen=True, slots=True)
class ServiceCalls:
    """Requests and calls between services.

    Attributes:
        forest: the contracted forest: n requests and calls, each with the callee's operation. Its times are
            those of the client's span where there is one, so waiting for a connection and the network are
            part of a call.
        rows: (n,) row in the whole forest of the callee's span.
        clients: (n,) row in the whole forest of the client's span; -1 where the call has none.
        places: (spans,) row in the contracted forest of each span of the whole forest; -1 for a span that
            is neither a request nor a call.
    """

    forest: Forest
    rows: Ints
    clients: Ints
    places: Ints


def find_service_calls(forest: Forest, requests: Ints) -> ServiceCalls:
    """Contract a forest to its requests and calls between services.

    A call is a span of another service than its parent's. The parent is the client's side of the call if
    this is its only child, and if the parent is no request or call itself.

    Args:
        forest: forest of all spans; it stays as it is.
        requests: rows of the spans that are requests, so that they are nodes whatever is above them.
    """
    entry = calls_of_services(forest)
    entry[requests] = True
    below = forest.parent >= 0
    nearest = forest.inherited(np.where(entry, np.arange(len(forest)), -1))
    rows = np.flatnonzero(entry)
    places = np.full(len(forest), -1, np.int64)
    places[rows] = np.arange(len(rows))
    clients = _clients(forest, entry, rows)
    outer = np.where(clients >= 0, clients, rows)
    above = np.where(below[rows], nearest[np.maximum(forest.parent[rows], 0)], -1)
    spans = taken(forest.spans, rows)
    spans["flags"] |= forest.spans["flags"][outer] & c.ERROR
    contracted = Forest(
        spans,
        forest.owns,
        forest.links,
        forest.names,
        forest.trace[rows],
        np.where(above >= 0, places[above], np.minimum(forest.parent[rows], ROOT)),
        _depths(forest, entry)[rows],
        forest.start[outer],
        forest.end[outer],
        forest.state[rows] | forest.state[outer],
        forest.counts,
    )
    return ServiceCalls(contracted, rows, clients, places)


def calls_of_services(forest: Forest) -> Bools:
    """(n,): True for the tops of trees and for spans of another service than their parent's."""
    service = services_of(forest.names)[forest.spans["op"]] if len(forest) else np.empty(0, np.int64)
    below = forest.parent >= 0
    entry = ~below
    entry[below] = service[below] != service[forest.parent[below]]
    return entry


def _clients(forest: Forest, entry: Bools, rows: Ints) -> Ints:
    """(n,): row of the client's span of each call, -1 for none."""
    above = forest.parent[rows]
    children = np.bincount(forest.parent[forest.parent >= 0], minlength=len(forest))
    known = above >= 0
    known[known] &= (children[above[known]] == 1) & ~entry[above[known]]
    return np.where(known, above, -1)


def _depths(forest: Forest, entry: Bools) -> Ints:
    """(spans,): number of requests and calls above each span."""
    depth = np.zeros(len(forest), np.int64)
    for rows in levels(forest.depth)[1:]:
        above = forest.parent[rows]
        depth[rows] = depth[above] + entry[above]
    return depth
