"""Calls between services: a forest of trees contracted to one node for each call of another service.

Spans inside a service are its own work at any depth. What remains of a trace is who called whom, when the
caller saw the call begin and end, and which route of the callee did the work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Bools, Ints, without_ids
from kwiken.otel.trace.attempts import CallAttempts, Hedges, attempts_below_clients, caller_hedges
from kwiken.otel.trace.forest import ATTEMPTED, DEPTH, DETACHED, ROOT, ROW, Forest, levels, services_asked
from kwiken.otel.trace.span_ends import codes

MIN_USUAL_SHARE: Final = 0.9  # of the clients' spans of a name, whose servers' spans are of one operation
MAX_CHANCE: Final = 1e-6  # that so many servers' spans in one place were lost by chance
SEVERAL: Final = -2  # services below one span
# Names that clients without kinds give to HTTP requests.
_CLIENT: Final = re.compile(r"^(?:HTTP )?(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH)\Z")
# Parts of a call before its callee is reached.
_CONNECTS: Final = re.compile(
    r"(?:^|[ ._:/-])(?:dns|tcp|tls|ssl|socket|connect|handshake|lookup|getaddrinfo|dial)(?:[ ._:/-]|\Z)",
    re.IGNORECASE,
)
_KINDS: Final = c.SERVER | c.CLIENT | c.PRODUCER | c.CONSUMER


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
        start: (n,) start of the callee's own span; of the first attempt where there were several.
        end: (n,) end of the callee's own span.
        idle: (n,) time between attempts in which none of them ran, nanoseconds.
        hedges: calls of which the caller sent copies; None for none. The winner stands for all attempts.
    """

    forest: Forest
    rows: Ints
    clients: Ints
    places: Ints
    start: Ints
    end: Ints
    idle: Ints
    hedges: Hedges | None


def find_service_calls(forest: Forest, requests: Ints) -> ServiceCalls:
    """Contract a forest to its requests and calls between services.

    A call is a span of another service than its parent's; `_clients` says which span is its client's side,
    whose time is that of the call. What else stands below the client's side (looking up a name, connecting,
    attempts that were tried again) is a part of the call. A client's span below which no server's span stands
    is a call too, of a callee whose spans are missing.

    Args:
        forest: forest of all spans; it stays as it is.
        requests: rows of the spans that are requests, so that they are nodes whatever is above them.
    """
    entry = calls_of_services(forest)
    entry[requests] = True
    served = np.flatnonzero(entry)
    client = np.full(len(forest), -1, np.int64)
    client[served] = _clients(forest, entry, served)
    takes = forest.spans["flags"] & c.CONSUMER != 0
    bare = _without_servers(forest, entry, client[entry & ~takes])
    bare = _without_outer_siblings(forest, client, bare)
    below = forest.parent >= 0
    nearest = forest.inherited(np.where(entry, np.arange(len(forest)), -1))
    called = _callees(forest, client, bare, nearest)
    entry |= called >= 0
    rows = np.flatnonzero(entry).astype(ROW)
    places = np.full(len(forest), -1, ROW)
    places[rows] = np.arange(len(rows))
    clients = np.where(called[rows] >= 0, rows, client[rows]).astype(ROW)
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
        contracted,
        rows,
        clients,
        places,
        forest.start[rows],
        forest.end[rows],
        np.zeros(len(rows), np.int64),
        None,
    )
    _without_other_calls(calls, forest)
    tries = attempts_below_clients(calls.clients, calls.start, calls.end, contracted)
    if tries is not None:
        _join_attempts(calls, tries)
    hedges = caller_hedges(contracted)
    if hedges is None:
        return calls
    inner = calls.start - contracted.start
    contracted.start[hedges.winner] = hedges.start
    calls.start[hedges.winner] = hedges.start + inner[hedges.winner]
    _join_attempts(calls, hedges)
    return replace(calls, hedges=hedges)


def _without_other_calls(calls: ServiceCalls, forest: Forest) -> None:
    """Cut the time of a call to that after the calls of other services that are made below its client's side.

    So an interceptor that fetches a token makes a call of its own, before the one that it is part of. What is
    called below a client's span after the answer, as by a callback, comes after the call.
    """
    tree = calls.forest
    side = np.full(len(forest), -1, np.int64)
    served = np.flatnonzero((calls.clients >= 0) & (calls.clients != calls.rows))
    side[calls.clients[served]] = served
    outer = np.where(calls.clients >= 0, calls.clients, calls.rows)
    above = forest.parent[outer]
    whose = np.where(above >= 0, forest.inherited(side)[np.maximum(above, 0)], -1)
    other = np.flatnonzero(whose >= 0)
    other = other[
        (tree.parent[other] == tree.parent[whose[other]])
        & (calls.clients[other] != calls.clients[whose[other]])
    ]
    call = whose[other]
    before, after = tree.end[other] <= calls.start[call], tree.start[other] >= calls.end[call]
    np.maximum.at(tree.start, call[before], tree.end[other[before]])
    np.minimum.at(tree.end, call[after], tree.start[other[after]])


def _join_attempts(calls: ServiceCalls, tries: CallAttempts) -> None:
    """Let the winner of several attempts stand for all of them, from the start of the first to its own end.

    The other attempts are set aside. What an attempt called before the next one was sent was waited for: it
    becomes a call of the winner, cut to that time, which counts on the critical path and is no stage.
    """
    tree = calls.forest
    calls.start[tries.winner] = np.minimum(calls.start[tries.winner], tries.start)
    calls.idle[tries.winner] += tries.idle
    tree.state[tries.losers] |= DETACHED
    heir, until = np.full(len(tree), -1, np.int64), np.full(len(tree), np.iinfo(np.int64).max)
    heir[tries.losers], until[tries.losers] = tries.winner[tries.of], tries.next
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
    service = forest.service
    below = forest.parent >= 0
    entry = ~below
    entry[below] = service[below] != service[forest.parent[below]]
    return entry


def _without_servers(forest: Forest, entry: Bools, clients: Ints) -> Ints:
    """Rows of the clients' spans below which no server's span stands; of nested ones, the outermost.

    A span that states no kind counts as a client's if its name is one that clients give to HTTP requests.
    Below the client's side of a call, a span that connects or asks for the same callee is a part of the call.

    Args:
        forest: forest of all spans.
        entry: (n,) whether a span is a request or a call.
        clients: rows of the clients' sides of calls whose servers' spans are there; -1 for none.
    """
    if not len(forest):
        return np.empty(0, np.int64)
    flags = forest.spans["flags"]
    client = (flags & c.CLIENT != 0) | (_named(forest, _CLIENT) & (flags & _KINDS == 0))
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
    found = np.flatnonzero(bare & ~inside)
    side = np.full(len(forest), -1, np.int64)
    side[clients[clients >= 0]] = clients[clients >= 0]
    side[entry] = len(forest)  # a call ends what is below its client's side
    side = forest.inherited(side)[found]
    within = (side >= 0) & (side < len(forest))
    around = np.where(within, side, 0)
    asked, of = (services_asked(forest.spans[some], forest.names) for some in (found, around))
    apart: Bools = ~within | ((asked != of) & (asked >= 0) & ~_named(forest, _CONNECTS)[found])
    return found[apart]


def _without_outer_siblings(forest: Forest, client: Ints, bare: Ints) -> Ints:
    """Rows of clients' spans without those around and beside a call's own client's span.

    Clients that wrap another client write such spans. They are the sides of their calls from then on.

    Args:
        forest: forest of all spans.
        client: (n,) row of the client's side of each call, -1 for none; changed.
        bare: (k,) rows of the clients' spans without a server's span.
    """
    served = np.flatnonzero((client >= 0) & (forest.spans["flags"] & c.CONSUMER == 0))
    if not len(served) or not len(bare):
        return bare
    rows, op = np.r_[client[served], bare], forest.spans["op"].astype(np.int64)
    key, length = codes(forest.parent[rows], op[rows]), forest.end - forest.start
    beside = np.full(int(key.max()) + 1, -1, np.int64)
    beside[key[: len(served)]] = np.arange(len(served))
    mate = beside[key[len(served) :]]
    inner = client[served[mate]]
    around = (
        (mate >= 0) & (forest.start[bare] <= forest.start[inner]) & (forest.end[bare] >= forest.end[inner])
    )
    around &= length[inner] >= MIN_USUAL_SHARE * length[bare]
    usual = np.bincount(op[bare], around) >= MIN_USUAL_SHARE * np.bincount(op[bare])
    outer = around & usual[op[bare]]
    client[served[mate[outer]]] = bare[outer]
    return bare[~outer]


def _callees(forest: Forest, client: Ints, bare: Ints, nearest: Ints) -> Ints:
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
        client: (n,) row of the client's side of a call; -1 for none, and for other spans.
        bare: (k,) rows of the clients' spans without a server's span.
        nearest: (n,) row of the request or call that each span belongs to.
    """
    called = np.full(len(forest), -1, np.int64)
    if not len(bare):
        return called
    op = forest.spans["op"].astype(np.int64)
    calls = np.flatnonzero((client >= 0) & (forest.spans["flags"] & c.CONSUMER == 0))
    calls = calls[np.unique(client[calls], return_index=True)[1]]  # of several attempts, one
    clients = client[calls]
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
    """(k,): row of the span that is the client's side of each call; -1 for none.

    There are three cases:

    1. A client's span stands above the call, inside of the caller, or begins the trace: the nearest; and the
       one above that, as
       of a library that tries again below its own span, if all calls below that one are of the same service.
    2. A span without a kind is the parent, and the call its only child but for those that connect: this one.
    3. Otherwise none, as of a span with calls of several services below it, of which it is that of the one
       that takes longest.

    Args:
        forest: forest of all spans.
        entry: (n,) whether a span is a request or a call.
        rows: (k,) rows of the requests and calls.
    """
    parent, flags = forest.parent.astype(np.int64), forest.spans["flags"]
    above = np.maximum(parent, 0)
    service = forest.service
    states = (flags & c.CLIENT != 0) & ~entry & (forest.spans["own"] < 0)
    side = np.where(states, np.arange(len(forest)), -1)
    for level in levels(forest.depth)[1:]:
        inner = level[~entry[level] & (side[level] < 0)]
        side[inner] = side[parent[inner]]
    side[entry] = -1
    begins = np.flatnonzero((parent < 0) & (flags & c.CLIENT != 0) & (forest.spans["own"] < 0))
    side[begins] = begins
    up = np.where(states & (parent >= 0), side[above], -1)
    found = np.where(parent[rows] >= 0, side[above[rows]], -1)
    # Of the services that are called straight below one client's span, that of the longest call.
    direct = np.flatnonzero(found >= 0)
    length = (forest.end - forest.start)[rows[direct]]
    owner = np.full(len(forest), -1, np.int64)
    order = direct[np.argsort(length, kind="stable")]
    owner[found[order]] = service[rows[order]]
    found[direct[owner[found[direct]] != service[rows[direct]]]] = -1
    # Of client's spans further up: the one service that is called below them, or `SEVERAL`.
    only, at = np.full(len(forest), -1, np.int64), np.where(found >= 0, up[found], -1)
    callee = service[rows]
    while (at >= 0).any():
        some = np.flatnonzero(at >= 0)
        least, most = np.full(len(forest), np.iinfo(np.int64).max), np.full(len(forest), -1, np.int64)
        np.minimum.at(least, at[some], callee[some])
        np.maximum.at(most, at[some], callee[some])
        seen = most >= 0
        mixed = (least != most) | (only == SEVERAL) | ((only >= 0) & (only != most))
        only[seen] = np.where(mixed, SEVERAL, most)[seen]
        at[some] = up[at[some]]
    while True:
        higher = np.where(found >= 0, up[found], -1)
        climbs = (higher >= 0) & (owner[higher] < 0) & (only[higher] >= 0)
        if not climbs.any():
            break
        found[climbs] = higher[climbs]
    children = np.bincount(parent[parent >= 0], minlength=len(forest))
    connects = np.flatnonzero((parent >= 0) & _named(forest, _CONNECTS) & ~entry)
    children -= np.bincount(parent[connects], minlength=len(forest))
    sole = (found < 0) & (parent[rows] >= 0) & ~entry[above[rows]] & (children[above[rows]] == 1)
    return np.where(sole & ~states[above[rows]], parent[rows], found)


def _named(forest: Forest, names: re.Pattern[str]) -> Bools:
    """(n,): whether the name of each span is one of these."""
    meant = np.array([names.search(name) is not None for _, name in forest.names.operations], np.bool_)
    return meant[forest.spans["op"]] if len(forest) else np.empty(0, np.bool_)


def _depths(forest: Forest, entry: Bools) -> Ints:
    """(spans,): number of requests and calls above each span."""
    depth = np.zeros(len(forest), DEPTH)
    for rows in levels(forest.depth)[1:]:
        above = forest.parent[rows]
        depth[rows] = depth[above] + entry[above]
    return depth
