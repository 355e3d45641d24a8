"""Attempts of one call: below one client's span, or sent again by the caller while the first still runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import CLIPPED, DETACHED, Forest, levels
from kwiken.otel.trace.span_ends import codes

MAX_HEDGED_SHARE: Final = 0.5  # of the calls; more of them that overlap are a fan-out
MIN_HEDGED_CALLS: Final = 3  # below which nothing tells a hedge from chance
MIN_SENT_SHARE: Final = 0.5  # of the calls that run longer than the delay, of which a copy is sent
MAX_ATTEMPTS: Final = 5
DELAY_PERCENTILE: Final = 10  # of the time from an attempt to the next, which adapts in some clients
MIN_DELAY_SHARE: Final = 0.5  # of that percentile; calls that follow sooner are no copies


@dataclass(frozen=True, slots=True)
class CallAttempts:
    """Calls of several attempts, one row a call.

    Attributes:
        winner: (k,) row of the attempt that answered first.
        start: (k,) start of the first attempt, nanoseconds since 1970.
        idle: (k,) time from the first start to the answer in which no attempt ran, nanoseconds.
        losers: (l,) rows of all other attempts.
        of: (l,) index of the call that each of them belongs to.
        next: (l,) start of the attempt after each of them; for attempts after the winner, that of the call.
    """

    winner: Ints
    start: Ints
    idle: Ints
    losers: Ints
    of: Ints
    next: Ints


@dataclass(frozen=True, slots=True)
class Hedges(CallAttempts):
    """Calls of which the caller sent copies, one row a call.

    Attributes:
        pairs_ns: (k, 2) time from the start of the first attempt, and from that of the second, to the answer.
        pairs_cut: (k, 2) whether that attempt lost, so that it would have taken longer.
    """

    pairs_ns: Ints
    pairs_cut: Bools


def attempts_below_clients(clients: Ints, start: Ints, end: Ints, tree: Forest) -> CallAttempts | None:
    """Find calls of several attempts below one client's span, as of a mesh or gRPC; None for none.

    Servers' spans below one client's span are attempts if none of them overlap, or hardly any client's span
    of that name has more than one; else they are a fan-out. The answer came from the last to end of those
    that did not fail and ended before the client gave them up.

    Args:
        clients: (n,) row of the client's side of each call, -1 for none.
        start: (n,) start of the callee's own span, nanoseconds since 1970.
        end: (n,) its end.
        tree: spans of the calls with their parents, one row a call.
    """
    rows = np.flatnonzero(clients >= 0)
    rows = rows[np.lexsort((end[rows], start[rows], clients[rows]))]
    head = np.r_[True, clients[rows][1:] != clients[rows][:-1]] if len(rows) else np.empty(0, np.bool_)
    first = np.flatnonzero(head)
    size = np.diff(np.r_[first, len(rows)])
    if not (size > 1).any():
        return None
    gap = _gaps(head, start[rows], end[rows])
    overlaps = np.add.reduceat(~gap & ~head, first) > 0
    op = tree.spans["op"].astype(np.int64)
    kind = codes(op[np.maximum(tree.parent[rows[first]], 0)], op[rows[first]])
    often = np.bincount(kind, overlaps) > MAX_HEDGED_SHARE * np.bincount(kind)
    tried = (size > 1) & ~(overlaps & often[kind])
    if not tried.any():
        return None
    return _attempts(tree, rows, start[rows], end[rows], first[tried], size[tried], last=True)


def caller_hedges(tree: Forest) -> Hedges | None:
    """Find attempts of one call among calls of one operation by one caller that overlap; None for none.

    Overlapping calls are attempts, and not shards of a fan-out, if they are so in a part of the calls only,
    at least half of the calls that run longer than a delay have a second one, which begins after that delay,
    and the delay is longer than the median of the calls that have no second one.
    """
    apart = c.FOLLOWS | c.CONSUMER
    rows = np.flatnonzero((tree.parent >= 0) & (tree.spans["flags"] & apart == 0))
    rows = rows[tree.state[tree.parent[rows]] & DETACHED == 0]
    if not len(rows):
        return None
    op = tree.spans["op"].astype(np.int64)
    rows = rows[np.lexsort((tree.end[rows], tree.start[rows], op[rows], tree.parent[rows]))]
    parent, start, end = tree.parent[rows], tree.start[rows], tree.end[rows]
    head = np.r_[True, (np.diff(parent) != 0) | (np.diff(op[rows]) != 0)]
    head |= _gaps(head, start, end)
    first = np.flatnonzero(head)
    size = np.diff(np.r_[first, len(rows)])
    several = size > 1
    if not several.any():
        return None
    kind = codes(op[parent[first]], op[rows[first]])
    length = end[first] - start[first]
    delay = start[np.minimum(first + 1, len(rows) - 1)] - start[first]
    hedged = np.zeros(len(first), np.bool_)
    number = np.bincount(kind[several], minlength=int(kind.max()) + 1)
    total = np.bincount(kind)
    likely = np.flatnonzero((number >= MIN_HEDGED_CALLS) & (number <= MAX_HEDGED_SHARE * total))
    for each in likely.tolist():
        mine = np.flatnonzero(kind == each)
        twice = mine[several[mine]]
        after = float(np.percentile(delay[twice], DELAY_PERCENTILE))
        longer = length[mine] >= after
        copies = twice[(delay[twice] >= MIN_DELAY_SHARE * after) & (size[twice] <= MAX_ATTEMPTS)]
        if (
            after > np.median(length[mine[~several[mine]]])
            and several[mine[longer]].mean() >= MIN_SENT_SHARE
            and len(copies) >= MIN_HEDGED_CALLS
        ):
            hedged[copies] = True
    return _hedges(tree, rows, first[hedged], size[hedged]) if hedged.any() else None


def _gaps(head: Bools, start: Ints, end: Ints) -> Bools:
    """(n,): whether a call began after all earlier ones of its caller and operation had ended."""
    ranks = np.arange(len(head))
    place = ranks - np.maximum.accumulate(np.where(head, ranks, 0))
    latest, gap = end.copy(), np.zeros(len(head), np.bool_)
    for rows in levels(place)[1:]:
        gap[rows] = start[rows] >= latest[rows - 1]
        latest[rows] = np.maximum(latest[rows], latest[rows - 1])
    return gap


def _hedges(tree: Forest, rows: Ints, first: Ints, size: Ints) -> Hedges:
    """Copies of calls whose rows stand one after another."""
    found = _attempts(tree, rows, tree.start[rows], tree.end[rows], first, size)
    second = tree.start[rows[first + 1]]
    answered = tree.end[found.winner]
    ahead = rows[np.stack([first, first + 1], axis=1)]
    return Hedges(
        found.winner,
        found.start,
        found.idle,
        found.losers,
        found.of,
        found.next,
        pairs_ns=np.stack([answered - found.start, answered - second], axis=1),
        pairs_cut=ahead != found.winner[:, None],
    )


def _attempts(
    tree: Forest, rows: Ints, starts: Ints, ends: Ints, first: Ints, size: Ints, *, last: bool = False
) -> CallAttempts:
    """CallAttempts of calls whose rows stand one after another, in order of their start.

    Args:
        starts: (n,) start of each of the rows, nanoseconds since 1970.
        ends: (n,) end of each of the rows.
        first: (k,) index in the rows of the first attempt of each call.
        size: (k,) number of its attempts.
        last: True if the last of them to end answered; False for the first.
    """
    call = np.repeat(np.arange(len(first)), size)
    at = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size) + np.repeat(first, size)
    attempt, start, end = rows[at], starts[at], ends[at]
    failed = (tree.spans["flags"][attempt] & c.ERROR != 0) | (tree.state[attempt] & DETACHED != 0)
    # The winner is the first to answer. Of two that end together, the one that began first was cancelled.
    failed |= last & (tree.state[attempt] & CLIPPED != 0)  # the client had given it up
    order = np.lexsort((-start, -end if last else end, failed, call))
    best = order[np.searchsorted(call[order], np.arange(len(first)))]
    head = np.cumsum(size) - size
    lost = np.ones(len(attempt), np.bool_)
    lost[best] = False
    following = np.append(start[1:], 0)
    fresh = np.zeros(len(attempt), np.bool_)
    fresh[head] = True
    latest, until = end.copy(), end[best][call]
    for level in levels(np.arange(len(attempt)) - np.repeat(head, size))[1:]:
        latest[level] = np.maximum(latest[level], latest[level - 1])
    pause = np.zeros(len(attempt), np.int64)
    pause[1:] = np.minimum(start[1:], until[1:]) - np.minimum(latest[:-1], until[1:])
    idle = np.bincount(call, np.where(fresh, 0, np.maximum(pause, 0))).astype(np.int64)
    return CallAttempts(
        winner=attempt[best],
        start=start[head],
        idle=idle,
        losers=attempt[lost],
        of=call[lost],
        next=np.where(start < start[best][call], following, start[head][call])[lost],
    )
