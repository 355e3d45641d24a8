"""Attempts of callers that hedge by themselves: calls that are sent again while the first one still runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import DETACHED, Forest, levels
from kwiken.otel.trace.span_ends import codes

MAX_HEDGED_SHARE: Final = 0.5  # of the calls; more of them that overlap are a fan-out
MIN_HEDGED_CALLS: Final = 3  # below which nothing tells a hedge from chance
MIN_SENT_SHARE: Final = 0.5  # of the calls that run longer than the delay, of which a copy is sent
MAX_ATTEMPTS: Final = 5
DELAY_PERCENTILE: Final = 10  # of the time from an attempt to the next, which adapts in some clients
MIN_DELAY_SHARE: Final = 0.5  # of that percentile; calls that follow sooner are no copies


@dataclass(frozen=True, slots=True)
class Hedges:
    """Calls of which the caller sent copies, one row a call.

    Attributes:
        winner: (k,) row of the attempt that answered first.
        start: (k,) start of the first attempt, nanoseconds since 1970.
        pairs_ns: (k, 2) time from the start of the first attempt, and from that of the second, to the answer.
        pairs_cut: (k, 2) whether that attempt lost, so that it would have taken longer.
        losers: (l,) rows of all other attempts.
        of: (l,) index of the call that each of them belongs to.
        next: (l,) start of the attempt after each of them; for attempts after the winner, that of the call.
    """

    winner: Ints
    start: Ints
    pairs_ns: Ints
    pairs_cut: Bools
    losers: Ints
    of: Ints
    next: Ints


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
    """Attempts of calls whose rows stand one after another."""
    call = np.repeat(np.arange(len(first)), size)
    at = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size) + np.repeat(first, size)
    attempt, start, end = rows[at], tree.start[rows[at]], tree.end[rows[at]]
    failed = (tree.spans["flags"][attempt] & c.ERROR != 0) | (tree.state[attempt] & DETACHED != 0)
    # The winner is the first to answer. Of two that end together, the one that began first was cancelled.
    order = np.lexsort((-start, end, failed, call))
    best = order[np.searchsorted(call[order], np.arange(len(first)))]
    answered = end[best]
    head = np.cumsum(size) - size
    pairs = np.stack([answered - start[head], answered - start[head + 1]], axis=1)
    lost = np.ones(len(attempt), np.bool_)
    lost[best] = False
    following = np.append(start[1:], 0)
    return Hedges(
        winner=attempt[best],
        start=start[head],
        pairs_ns=pairs,
        pairs_cut=np.stack([lost[head], lost[head + 1]], axis=1),
        losers=attempt[lost],
        of=call[lost],
        next=np.where(start < start[best][call], following, start[head][call])[lost],
    )
