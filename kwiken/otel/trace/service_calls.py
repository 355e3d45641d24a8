"""Calls between services: a forest of trees contracted to one node for each call of another service.

Spans inside a service are its own work at any depth. What remains of a trace is who called whom, when the
caller saw the call begin and end, and which route of the callee did the work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Bools, Ints, without_ids
from kwiken.otel.trace.caller_hedges import Hedges, caller_hedges
from kwiken.otel.trace.forest import ATTEMPTED, DEPTH, DETACHED, ROOT, ROW, Forest, levels, services_of
from kwiken.otel.trace.span_ends import codes

MIN_USUAL_SHARE: Final = 0.9  # of the clients' spans of a name, whose servers' spans are of one operation
MAX_CHANCE: Final = 1e-6  # that so many servers' spans in one place were lost by chance
# Names that clients without kinds give to HTTP requests.
_CLIENT: Final = re.compile(r"^(?:HTTP )?(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH)\Z")


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
        start: (n,) start of the callee's own span; of the first attempt where the caller hedged.
        end: (n,) end of the callee's own span.
        hedges: calls of which the caller sent copies; None for none. The winner stands for all attempts.
    """

    forest: Forest
    rows: Ints
    clients: Ints
    places: Ints
    start: Ints
    end: Ints
    hedges: Hedges | None


def find_service_calls(forest: Forest, requests: Ints) -> ServiceCalls:
    """Contract a forest to its requests and calls between services.

    A call is a span of another service than its parent's. The parent is the client's side of the call if
    this is its only child, and if the parent is no request or call itself. A client's span below which no
    server's span stands is a call too, of a callee whose spans are missing.

    Args:
        forest: forest of all spans; it stays as it is.
        requests: rows of the spans that are requests, so that they are nodes whatever is above them.
    """
    entry = calls_of_services(forest)
    entry[requests] = True
    bare = _without_servers(forest, entry)
    below = forest.parent >= 0
    nearest = forest.inherited(np.where(entry, np.arange(len(forest)), -1))
    called = _callees(forest, entry, bare, nearest)
    entry |= called >= 0
    rows = np.flatnonzero(entry).astype(ROW)
    places = np.full(len(forest), -1, ROW)
    places[rows] = np.arange(len(rows))
    clients = np.where(called[rows] >= 0, rows, _clients(forest, entry, rows)).astype(ROW)
    outer = np.where(clients >= 0, clients, rows)
    above = np.where(below[rows], nearest[np.maximum(forest.parent[rows], 0)], -1)
    spans = without_ids(forest.spans, rows)
    spans["flags"] |= forest.spans["flags"][outer] & c.ERROR
    spans["op"] = np.where(called[rows] >= 0, called[rows], spans["op"])
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
    calls = ServiceCalls(
        contracted, rows, clients, places, forest.start[rows], forest.end[rows], caller_hedges(contracted)
    )
    _join_attempts(calls)
    return calls


def _join_attempts(calls: ServiceCalls) -> None:
    """Let the winner of several attempts stand for all of them, from the start of the first to its own end.

    The other attempts are set aside. What an attempt called before the next one was sent was waited for: it
    becomes a call of the winner, cut to that time, which counts on the critical path and is no stage.
    """
    hedges, tree = calls.hedges, calls.forest
    if hedges is None:
        return
    inner = calls.start - tree.start
    tree.start[hedges.winner] = hedges.start
    calls.start[hedges.winner] = hedges.start + inner[hedges.winner]
    tree.state[hedges.losers] |= DETACHED
    heir, until = np.full(len(tree), -1, np.int64), np.full(len(tree), np.iinfo(np.int64).max)
    heir[hedges.losers], until[hedges.losers] = hedges.winner[hedges.of], hedges.next
    for level in levels(tree.depth)[1:]:
        rows = level[tree.state[level] & DETACHED == 0]
        above = tree.parent[rows]
        until[rows] = np.minimum(until[rows], until[above])
        direct = heir[above] >= 0
        tree.parent[rows[direct]] = heir[above[direct]]
        tree.state[rows[direct]] |= ATTEMPTED
        cut = rows[until[rows] < tree.end[rows]]
        for ends, starts in ((tree.end, tree.start), (calls.end, calls.start)):
            ends[cut] = np.maximum(np.minimum(ends[cut], until[cut]), starts[cut])


def calls_of_services(forest: Forest) -> Bools:
    """(n,): True for the tops of trees and for spans of another service than their parent's."""
    service = services_of(forest.names)[forest.spans["op"]] if len(forest) else np.empty(0, np.int64)
    below = forest.parent >= 0
    entry = ~below
    entry[below] = service[below] != service[forest.parent[below]]
    return entry


def _without_servers(forest: Forest, entry: Bools) -> Ints:
    """Rows of the clients' spans below which no server's span stands; of nested ones, the outermost.

    A span that states no kind counts as a client's if its name is one that clients give to HTTP requests.

    Args:
        forest: forest of all spans.
        entry: (n,) whether a span is a request or a call.
    """
    if not len(forest):
        return np.empty(0, np.int64)
    flags = forest.spans["flags"]
    kinds = c.SERVER | c.CLIENT | c.PRODUCER | c.CONSUMER
    named = np.array([_CLIENT.match(name) is not None for _, name in forest.names.operations], np.bool_)
    client = (flags & c.CLIENT != 0) | (named[forest.spans["op"]] & (flags & kinds == 0))
    client &= ~entry & (forest.spans["own"] < 0)
    served = (entry | (flags & c.SERVER != 0)) & (flags & c.CONSUMER == 0)
    depths = levels(forest.depth)
    for rows in reversed(depths[1:]):
        np.logical_or.at(served, forest.parent[rows], served[rows] & ~entry[forest.parent[rows]])
    bare = client & ~served
    inside = np.zeros(len(forest), np.bool_)
    for rows in depths[1:]:
        above = forest.parent[rows]
        inside[rows] = (bare[above] | inside[above]) & ~entry[rows]
    return np.flatnonzero(bare & ~inside)


def _callees(forest: Forest, entry: Bools, bare: Ints, nearest: Ints) -> Ints:
    """(n,): operation that a client's span without a server's span calls; -1 for other spans.

    Where clients' spans that are alike have a server's span in other requests, the call is the same. There
    are four cases:

    1. The clients' spans of one caller that stand in the same place among those of their name nearly all
       call one operation: that operation.
    2. As 1, of all clients' spans of the caller with that name and that callee. Of a place in which no
       client's span ever has a server's span this holds only if chance may have lost them all.
    3. The client's span names a callee: that one.
    4. Otherwise, as where the client states no kind, the call stays the caller's own work.

    Args:
        forest: forest of all spans.
        entry: (n,) whether a span is a request or a call.
        bare: (k,) rows of the clients' spans without a server's span.
        nearest: (n,) row of the request or call that each span belongs to.
    """
    called = np.full(len(forest), -1, np.int64)
    if not len(bare):
        return called
    op = forest.spans["op"].astype(np.int64)
    calls = np.flatnonzero(entry & (forest.spans["flags"] & c.CONSUMER == 0))
    clients = _clients(forest, entry, calls)
    calls, clients = calls[clients >= 0], clients[clients >= 0]
    rows = np.r_[clients, bare]
    answers = np.r_[op[calls], np.full(len(bare), -1)]
    alike = codes(op[nearest[rows]], op[rows], forest.spans["callee"][rows].astype(np.int64))
    place = _positions(nearest[rows], alike, forest.start[rows])
    found = np.where(forest.spans["callee"][rows] >= 0, forest.spans["callee"][rows], -1).astype(np.int64)
    places = codes(alike, place)
    usual = _usual(alike, answers)
    found = np.where((usual >= 0) & ~_never_served(alike, places, answers), usual, found)
    usual = _usual(places, answers)
    found = np.where(usual >= 0, usual, found)
    called[bare] = found[len(clients) :]
    return called


def _usual(group: Ints, answers: Ints) -> Ints:
    """(k,): answer that nearly all members of a group give that give one; -1 where there is none.

    Args:
        group: (k,) number of the group.
        answers: (k,) answer, -1 for none.
    """
    there = answers >= 0
    pairs, number = np.unique(np.c_[group[there], answers[there]], axis=0, return_counts=True)
    total = np.bincount(group[there], minlength=int(group.max()) + 1)
    usual = np.full(len(total), -1, np.int64)
    most = number >= MIN_USUAL_SHARE * total[pairs[:, 0]]
    usual[pairs[most, 0]] = pairs[most, 1]
    return usual[group]


def _never_served(alike: Ints, places: Ints, answers: Ints) -> Bools:
    """(k,): whether a client's span stands in a place that no answer comes from, and too often for chance.

    Were the servers' spans lost at random, as many of a place would be missing as of all places with answers.

    Args:
        alike: (k,) number of the group of clients' spans that are alike.
        places: (k,) number of the place within the group.
        answers: (k,) answer, -1 for none.
    """
    there = answers >= 0
    number, answered = np.bincount(places), np.bincount(places, weights=there)
    served = answered[places] > 0
    lost = (np.bincount(alike, weights=served & ~there) + 1) / (np.bincount(alike, weights=served) + 2)
    never: Bools = ~served & (number[places] * np.log(lost[alike]) < np.log(MAX_CHANCE))
    return never


def _positions(owner: Ints, alike: Ints, start: Ints) -> Ints:
    """(k,): place of each span among those of one owner that are alike, in order of their start."""
    order = np.lexsort((start, alike, owner))
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(owner[order]) != 0) | (np.diff(alike[order]) != 0)
    ranks = np.arange(len(order))
    place = np.empty(len(order), np.int64)
    place[order] = ranks - np.maximum.accumulate(np.where(first, ranks, 0))
    return place


def _clients(forest: Forest, entry: Bools, rows: Ints) -> Ints:
    """(n,): row of the client's span of each call, -1 for none."""
    above = forest.parent[rows]
    children = np.bincount(forest.parent[forest.parent >= 0], minlength=len(forest))
    known = above >= 0
    known[known] &= (children[above[known]] == 1) & ~entry[above[known]]
    return np.where(known, above, -1)


def _depths(forest: Forest, entry: Bools) -> Ints:
    """(spans,): number of requests and calls above each span."""
    depth = np.zeros(len(forest), DEPTH)
    for rows in levels(forest.depth)[1:]:
        above = forest.parent[rows]
        depth[rows] = depth[above] + entry[above]
    return depth
