"""Kinds of requests: requests with the same root are told apart by the first route that tells them.

Behind a gateway all traces begin with the same span. The kind of a request is then the route of the first
service that it is passed on to.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from kwiken.model.reads.names import http_method
from kwiken.otel.conventions.routes import ACTION_KEYS
from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Ints
from kwiken.otel.trace.forest import ATTEMPTED, DETACHED, Forest
from kwiken.otel.trace.service_calls import ServiceCalls

MIN_PASS_SHARE: Final = 0.95  # of the requests that a gateway passes on by one call; a few may end in errors
MIN_GATEWAY_SHARE: Final = 0.75  # of the time that this call holds
MAX_GATEWAYS: Final = 20  # in a row
_OPERATION: Final = re.compile(r"^(?:query|mutation|subscription) \w")
# A path with a segment that is neither a wildcard nor a variable, a gRPC method, a GraphQL operation or a
# queue that is worked off.
_ROUTE: Final = re.compile(
    r"^(?=[^*]*$)(?:\S+ )*[^\s/]*/(?![{:<])[^\s/]"
    r"|^(?:query|mutation|subscription) \w|^(?!<)\S+ (?:process|receive|deliver)\Z"
)


def kinds_of(forest: Forest, calls: ServiceCalls, rows: Ints) -> Ints:
    """Number of the operation that tells each request's kind: that of its root, or of a service behind it.

    There are four cases for the requests of one root operation:

    0. It is posted or names no route, and below it nearly all requests have a span of the same service that
       names an operation (of GraphQL, JSON-RPC, SOAP or another RPC), not always the same: that operation.
    1. The operation names a route: it is their kind.
    2. Nearly all requests are passed on by one call that takes most of their time, through one service after
       another, and at some service their routes differ: the route there is the kind of each.
    3. All of them take the same way: the first route on it is their kind, or the root operation if no service
       names a route.

    Args:
        forest: forest of all spans.
        calls: requests and calls between services.
        rows: (n,) rows in the whole forest of the requests' spans.
    """
    at = calls.places[rows]
    kinds = calls.forest.spans["op"][at].astype(np.int64)
    number, longest = _longest_calls(calls)
    inside = _operations_inside(forest, calls, rows)
    for op in np.unique(kinds).tolist():
        name = calls.forest.names.operations[op][1]
        mine = np.flatnonzero(kinds == op)
        named = inside[mine] >= 0
        asked = http_method(name) == "POST" or not is_route(name)
        if asked and named.mean() >= MIN_PASS_SHARE and len(np.unique(inside[mine[named]])) > 1:
            kinds[mine[named]] = inside[mine[named]]
        elif not is_route(calls.forest.names.operations[op][1]):
            kinds[mine] = _behind(calls, at[mine], number, longest)
    return kinds


def _operations_inside(forest: Forest, calls: ServiceCalls, rows: Ints) -> Ints:
    """(n,): number of the operation that the topmost span below each request names, inside its service."""
    names = forest.names
    names_one = np.array(
        [
            _OPERATION.match(name) is not None
            or not names.stated.get(op, {}).keys().isdisjoint(("rpc.method", *ACTION_KEYS))
            for op, (_, name) in enumerate(names.operations)
        ],
        np.bool_,
    )
    spans = np.flatnonzero(
        names_one[forest.spans["op"]]
        & (forest.spans["flags"] & (c.CLIENT | c.PRODUCER) == 0)
        & (calls.places < 0)
    )
    found = np.full(len(rows), -1, np.int64)
    if len(spans):
        owner = forest.inherited(calls.places.astype(np.int64))[spans]
        request = np.full(len(calls.forest), -1, np.int64)
        request[calls.places[rows]] = np.arange(len(rows))
        spans, owner = spans[request[owner] >= 0], request[owner][request[owner] >= 0]
        order = np.lexsort((forest.start[spans], forest.depth[spans], owner))[::-1]
        found[owner[order]] = forest.spans["op"][spans[order]]  # the topmost is written last
    return found


def is_route(operation: str) -> bool:
    """Whether an operation names one route: a path without a wildcard, or a gRPC method.

    Args:
        operation: name of a span, such as `GET /cart/{id}` (a route), `/*` or `HTTP GET` (none).
    """
    return _ROUTE.match(operation) is not None


def _behind(calls: ServiceCalls, at: Ints, number: Ints, longest: Ints) -> Ints:
    """(n,): number of the operation that tells the kind of requests that share a root operation."""
    forest = calls.forest
    length = forest.end - forest.start
    op = forest.spans["op"]
    kinds = op[at].astype(np.int64)
    there = np.arange(len(at))
    for _ in range(MAX_GATEWAYS):
        single = number[at] == 1
        if single.mean() < MIN_PASS_SHARE:
            break
        if length[longest[at[single]]].sum() < MIN_GATEWAY_SHARE * length[at[single]].sum():
            break
        there, at = there[number[at] > 0], longest[at[number[at] > 0]]
        if (op[at] != op[at[0]]).any() or is_route(forest.names.operations[int(op[at[0]])][1]):
            kinds[there] = op[at]
            break
    return kinds


def _longest_calls(calls: ServiceCalls) -> tuple[Ints, Ints]:
    """Of each request or call: number of calls that it waited for, and the longest of them; -1 for none."""
    forest = calls.forest
    rows = np.flatnonzero((forest.parent >= 0) & (forest.state & (DETACHED | ATTEMPTED) == 0))
    rows = rows[np.argsort((forest.end - forest.start)[rows], kind="stable")]
    longest = np.full(len(forest), -1, np.int64)
    longest[forest.parent[rows]] = rows  # the longest is written last, and so stays
    return np.bincount(forest.parent[rows], minlength=len(forest)), longest
