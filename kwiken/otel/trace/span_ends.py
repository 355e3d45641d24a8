"""Ends of spans that say little: of messages and calls that nobody waits for, and of unfinished spans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Bools, Ints, Names, Rows

CLOCK_NS: Final = (
    1_000_000  # by which ends that one clock states may err; some tracers cut them to milliseconds
)
MAX_CUT_SHARE: Final = 0.1  # of a call, by which it may outlast a caller that waited for it
MIN_OUTLASTING_SHARE: Final = 0.5  # of the calls, above which nobody waits for any of them
MIN_PART_SHARE: Final = 0.02  # of the calls, below which those that outlast their callers are accidents
MAX_STRETCH: Final = 1.5  # of a caller's usual time, up to which it did not wait for a call that outlasts it
AHEAD_PERCENTILE: Final = 5  # of starts after their callers', which bounds how far a clock is ahead
MIN_CALLS_OF_SIDES: Final = 5  # with both sides between two instances, for their clocks to be compared
MIN_CALLS_FOR_SKEW: Final = 20  # without a client's side, below which late ones prove no clock wrong
MIN_LATE_SHARE: Final = 0.9  # of these calls, begun after their callers ended though they would fit inside
MAX_OFFSET_SPREAD: Final = 0.1  # interquartile range of a clock's offset, over its median
MIN_SKEWED_SHARE: Final = 0.02  # of calls wholly outside of their clients' time, above which no clock is sure
_SENDS: Final = re.compile(r"^\S+ (?:send|publish|create)\Z")
_TAKES: Final = re.compile(r"^\S+ (?:process|receive|deliver)\Z")
# Spans in which a caller only takes what a callee still sends.
_READS_ANSWER: Final = re.compile(r"\b(?:read|recv|receive|body|stream|download|decode|parse)", re.IGNORECASE)


def states_no_wait(spans: Rows, names: Names, parent: Ints, service: Ints) -> Bools:
    """(n,): whether a span states that its parent does not wait for it, whatever its times.

    There are three cases:

    1. It follows from its parent.
    2. It works off a message. Spans of one consumer may be nested, as where both a library and a framework
       write one; there the outer one waits for the inner.
    3. It states no kind, but its name and its parent's are those of a consumer and a producer (`orders
       process` below `orders publish`).

    Args:
        spans: (n,) rows of `SPAN`.
        parent: (n,) row of the parent, negative for none.
        service: (n,) number of each span's service.
    """
    flags, op = spans["flags"], spans["op"]
    found: Bools = flags & c.FOLLOWS != 0
    rows = np.flatnonzero(parent >= 0)
    above = parent[rows]
    operations = [name for _, name in names.operations]
    sends, takes = (
        np.array([rule.match(name) is not None for name in operations], np.bool_) for rule in (_SENDS, _TAKES)
    )
    kinds = c.SERVER | c.CLIENT | c.PRODUCER | c.CONSUMER
    named = (
        (flags[rows] & kinds == 0) & takes[op[rows]] & sends[op[above]] & (service[rows] != service[above])
    )
    taker = flags & c.CONSUMER != 0
    nested = taker[above] & (service[rows] == service[above])
    found[rows[named | (taker[rows] & ~nested)]] = True
    return found


def outlasting(spans: Rows, parent: Ints, service: Ints, start: Ints, end: Ints, alone: Bools) -> Bools:
    """(n,): whether a call is one that its caller did not wait for, because it ends after its caller.

    A call of the caller's own process ends too late if it outlasts the caller by more than a clock errs. Of a
    call that another process states, as much is allowed as that process's clock may be ahead: a call cannot
    begin before its caller. The server's side of a call is never set aside; its client's side decides.

    There are three cases for calls of the same callee by the same caller:

    1. Most of them end too late: nobody waits for any of them.
    2. Some do, and their callers took no longer than usual: nobody waited for these.
    3. Hardly any do, or some do and their callers took longer than usual: the callers waited until they gave
       up.

    Args:
        spans: (n,) rows of `SPAN`.
        parent: (n,) row of the parent, negative for none.
        service: (n,) number of each span's service.
        start: (n,) start, nanoseconds since 1970.
        end: (n,) end, nanoseconds since 1970.
        alone: (n,) whether a span states that its parent does not wait for it.
    """
    found = np.zeros(len(spans), np.bool_)
    below = parent >= 0
    late = np.zeros(len(spans), np.bool_)
    late[below] = end[below] - end[parent[below]] > CLOCK_NS
    late &= ~alone
    if not late.any():
        return found
    same = np.zeros(len(spans), np.bool_)
    same[below] = service[below] == service[parent[below]]
    called = _called(spans, parent, service)
    group = codes(spans["op"][np.maximum(parent, 0)], spans["op"], called)
    inner = _inner_sides(spans, parent, same)
    pair = codes(service[np.maximum(parent, 0)], service)
    rows = np.flatnonzero(below & ~alone & ~inner & np.isin(group, group[late & ~inner]))
    rows = rows[np.argsort(group[rows], kind="stable")]
    for calls in np.split(rows, np.flatnonzero(np.diff(group[rows])) + 1) if len(rows) else []:
        above = parent[calls]
        over, took, length = end[calls] - end[above], end[calls] - start[calls], end[above] - start[above]
        allowed = CLOCK_NS
        if not same[calls[0]]:
            mine = np.flatnonzero((pair == pair[calls[0]]) & below & ~alone)
            allowed += max(0, int(np.percentile(start[mine] - start[parent[mine]], AHEAD_PERCENTILE)))
        # However far a clock is ahead, a caller waited for no call that is longer than itself.
        beyond = (over > allowed) | (took - length > np.maximum(CLOCK_NS, MAX_CUT_SHARE * took))
        if beyond.mean() > MIN_OUTLASTING_SHARE:
            found[calls] = True
            continue
        beyond &= over > MAX_CUT_SHARE * took
        if beyond.mean() < MIN_PART_SHARE:
            continue
        if np.median(length[beyond]) <= MAX_STRETCH * np.median(length[~beyond]):
            found[calls[beyond]] = True
    return found


def _called(spans: Rows, parent: Ints, service: Ints) -> Ints:
    """(n,): number of the operation of another service that a span calls, as its child or by its own word."""
    called = np.where(spans["callee"] >= 0, spans["callee"], -1).astype(np.int64)
    rows = np.flatnonzero(parent >= 0)
    rows = rows[service[rows] != service[parent[rows]]]
    called[parent[rows]] = spans["op"][rows]
    return called


def _inner_sides(spans: Rows, parent: Ints, same: Bools) -> Bools:
    """(n,): whether a span is the server's side of a call that its parent is the client's side of."""
    below = parent >= 0
    children = np.bincount(parent[below], minlength=len(parent))
    above = np.maximum(parent, 0)
    flags = spans["flags"][above]
    client = (flags & c.CLIENT != 0) | (same[above] & (children[above] == 1) & (flags & c.PRODUCER == 0))
    inner: Bools = below & ~same & client
    return inner


def codes(*columns: Ints) -> Ints:
    """(n,): number of each combination of values."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, code = np.unique(code * (int(column.max(initial=0)) + 2) + column + 1, return_inverse=True)
    return code


def finish_spans(spans: Rows, parent: Ints, end: Ints, service: Ints, levels: Sequence[Ints]) -> None:
    """Give unfinished spans an end where other spans tell it; the others have no duration.

    A call whose server's span has no end is whole at its client, and the other way round. There are three
    cases:

    1. The parent is finished and of another service: the span is the server's side of the call, and lasts to
       the end of the client's.
    2. Spans below are finished, and the span has a parent: it lasts until the last of them ends.
    3. Otherwise the end is unknown, as with a request: the span counts as one that ends before it starts.

    Args:
        spans: (n,) rows of `SPAN`; those whose end stays unknown get the flag `NEGATIVE`.
        parent: (n,) row of each span's parent, negative for none.
        end: (n,) ends, nanoseconds since 1970; changed in place.
        service: (n,) number of each span's service.
        levels: rows grouped by depth, from the top.
    """
    still = spans["flags"] & c.UNFINISHED != 0
    if not still.any():
        return
    start = spans["start"]
    for rows in levels[1:]:
        above = parent[rows]
        served = rows[
            still[rows] & ~still[above] & (service[rows] != service[above]) & (end[above] > start[rows])
        ]
        end[served] = end[parent[served]]
        still[served] = False
    latest = start.astype(np.int64)
    for rows in reversed(levels[1:]):
        done = rows[still[rows] & (latest[rows] > start[rows])]
        end[done] = latest[done]
        still[done] = False
        known = rows[~still[rows]]
        np.maximum.at(latest, parent[known], end[known])
    spans["flags"][still] |= c.NEGATIVE


def late_clocks(spans: Rows, parent: Ints, service: Ints, start: Ints, end: Ints, alone: Bools) -> Bools:
    """(n,): whether a callee's span lies too late because the clock of its instance is ahead of its caller's.

    A callee that nobody waits for looks alike, but below a client's span stands the server's side of the same
    call, whatever its times. Clocks are compared by pair of instances. There are three cases:

    1. Below a client's span: the span begins after the client's end; or it ends too late, and some calls of
       the pair lie wholly outside of their clients' time.
    2. As 1, and one offset would put nearly every call of the pair into its client's time: all are late.
    3. Without a client's span: nearly all calls of the pair begin after their callers' ends, would fit into
       their callers' time, and are off by nearly the same time. Then those that are off by that time, but so
       slow that they begin before their callers' end, are late too.

    Args:
        spans: (n,) rows of `SPAN`.
        parent: (n,) row of the parent, negative for none.
        service: (n,) number of each span's service.
        start: (n,) start, nanoseconds since 1970.
        end: (n,) end, nanoseconds since 1970.
        alone: (n,) whether a span states that its parent does not wait for it.
    """
    found = np.zeros(len(spans), np.bool_)
    rows = np.flatnonzero((parent >= 0) & ~alone)
    rows = rows[service[rows] != service[parent[rows]]]
    above = parent[rows]
    after, over, length = start[rows] - start[above], end[rows] - end[above], end[above] - start[above]
    client = spans["flags"][above] & c.CLIENT != 0
    outside = after > length
    late = outside & (over <= after)
    suspect = late | (client & (over > CLOCK_NS))
    if not suspect.any():
        return found
    pair = _pairs(spans, service, above, rows)
    some = np.flatnonzero(np.isin(pair, pair[suspect]))
    some = some[np.argsort(pair[some], kind="stable")]
    found[rows[client & outside]] = True
    for mine in np.split(some, np.flatnonzero(np.diff(pair[some])) + 1):
        if client[mine].all():
            ahead = over[mine] > CLOCK_NS
            skewed = outside[mine] | (after[mine] < -CLOCK_NS)
            latest, soonest = np.percentile(over[mine], 95), np.percentile(after[mine], AHEAD_PERCENTILE)
            if len(mine) >= MIN_CALLS_OF_SIDES and np.median(over[mine]) > CLOCK_NS >= latest - soonest:
                found[rows[mine]] = True
            elif skewed.mean() >= MIN_SKEWED_SHARE:
                found[rows[mine[ahead]]] = True
            continue
        off = after[mine][late[mine]]
        if len(mine) < MIN_CALLS_FOR_SKEW or len(off) < MIN_LATE_SHARE * len(mine):
            continue
        low, middle, high = np.percentile(off, (25, 50, 75)).tolist()
        if high - low <= MAX_OFFSET_SPREAD * middle:
            alike = np.abs(after[mine] - middle) <= MAX_OFFSET_SPREAD * middle
            found[rows[mine[late[mine] | alike]]] = True
    return found


def _pairs(spans: Rows, service: Ints, above: Ints, rows: Ints) -> Ints:
    """(k,): number of the pair of instances that each call is between."""
    instance = spans["instance"].astype(np.int64)
    return codes(service[above], instance[above], service[rows], instance[rows])


def finish_clients(
    spans: Rows,
    names: Names,
    parent: Ints,
    service: Ints,
    start: Ints,
    end: Ints,
    apart: Bools,
    levels: Sequence[Ints],
) -> None:
    """Let a client's span that ends at the answer's headers last until its server's span ends.

    So it is where the server's span ends later by more than its clock may be ahead, the caller's own span
    still runs then, and the caller begins nothing else meanwhile but to read the answer. The same holds for a
    span that only starts a call and ends at once: it lasts as long as the client's span below it.

    Args:
        spans: (n,) rows of `SPAN`.
        parent: (n,) row of the parent, negative for none.
        service: (n,) number of each span's service.
        start: (n,) start, nanoseconds since 1970.
        end: (n,) ends, nanoseconds since 1970; those of clients' spans and of spans around them change.
        apart: (n,) whether nobody waits for a span, or its clock is wrong.
        levels: rows grouped by depth, from the top.
    """
    rows = np.flatnonzero((parent >= 0) & ~apart)
    above, flags = parent[rows], spans["flags"]
    entry = parent < 0
    entry[~entry] = service[~entry] != service[parent[~entry]]
    same = service[rows] == service[above]
    sides = np.where(same, flags[rows] & c.CLIENT != 0, flags[above] & c.CLIENT != 0)
    sides &= ~entry[above] & (flags[above] & c.ERROR == 0)
    rows, above, same = rows[sides], above[sides], same[sides]
    over = end[rows] - end[above]
    if not (over > CLOCK_NS).any():
        return
    pair = _pairs(spans, service, above, rows)
    order = np.lexsort((start[rows] - start[above], pair))
    first = np.searchsorted(pair[order], np.arange(int(pair.max()) + 1))
    size = np.bincount(pair)
    soonest = (start[rows] - start[above])[order[first + AHEAD_PERCENTILE * size // 100]]
    longer = over > CLOCK_NS + np.where(same, 0, np.maximum(soonest, 0)[pair])
    rows, above = rows[longer], above[longer]
    caller = np.arange(len(spans))
    for level in levels[1:]:
        inner = level[~entry[level]]
        caller[inner] = caller[parent[inner]]
    whose = caller[above]
    owner = np.where(entry & (parent >= 0), caller[np.maximum(parent, 0)], caller)
    reads = np.array([_READS_ANSWER.search(name) is not None for _, name in names.operations], np.bool_)
    inside = np.zeros(len(spans), np.bool_)
    inside[rows] = True
    for level in levels[1:]:
        inside[level] |= inside[parent[level]]
    works = np.flatnonzero(np.isin(owner, whose) & ~inside & ~reads[spans["op"]])
    # Of each client's end and all starts of its caller's spans: the first start at or after that end.
    group, time = np.r_[whose, owner[works]], np.r_[end[above], start[works]]
    order = np.lexsort((np.arange(len(group)) >= len(whose), time, group))
    places = np.where(order >= len(whose), np.arange(len(order)), len(order))
    following = np.minimum.accumulate(places[::-1])[::-1]
    at = np.empty(len(order), np.int64)
    at[order] = following
    of = order[np.minimum(at[: len(whose)], len(order) - 1)]
    other = (at[: len(whose)] < len(order)) & (group[of] == whose) & (time[of] < end[rows])
    last = ~other & (end[rows] <= end[whose])
    until, at_row = end[rows[last]], above[last]
    while len(at_row):
        np.maximum.at(end, at_row, until)
        at_row = parent[at_row]
        until, at_row = until[~entry[at_row]], at_row[~entry[at_row]]
