"""Forest of span trees, one a trace, cleaned as critical-path tools do (CRISP, ATC 2022; Jaeger's UI).

Spans that do not fit are marked or left out, and counted in either case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

import numpy as np

from kwiken.base.errors import InputError
from kwiken.otel.conventions.callees import UNNAMED
from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Bools, Ids, Ints, Names, Rows, taken, without_ids
from kwiken.otel.read.span_store import SpanStore, select, trace_keys
from kwiken.otel.trace.span_ends import (
    CLOCK_NS,
    finish_clients,
    finish_spans,
    late_clocks,
    outlasting,
    states_no_wait,
)

MAX_DEPTH: Final = 1000
ROOT: Final = -1  # parent of a span that states none
LOST: Final = -2  # parent of a span whose parent is missing

# Changes that cleaning made to a span.
DETACHED: Final = 1  # not waited for by the request
CLIPPED: Final = 2  # cut to its parent's time
SHIFTED: Final = 4  # moved into its parent's time because of clock skew
ATTEMPTED: Final = 8  # called by an attempt that lost

_KIND_FLAGS: Final = c.SERVER | c.CLIENT | c.PRODUCER | c.CONSUMER
# Types of the columns that are held as long as the trees.
ROW: Final = np.int32  # rows and numbers of traces: above the number of spans that memory holds
DEPTH: Final = np.int16  # above `MAX_DEPTH`
STATE: Final = np.int8
# Order of the sides of a call by their kinds: who calls, who states no kind, who is called.
_SIDES: Final = np.array(
    [
        0 if flags & (c.CLIENT | c.PRODUCER) else 2 if flags & (c.SERVER | c.CONSUMER) else 1
        for flags in range(256)
    ]
)


@dataclass(slots=True)
class Forest:
    """Columns of n spans, grouped by trace, with their parents and cleaned times.

    Attributes:
        spans: (n,) rows of `SPAN`, as read; of `NAMED`, where ids are not needed.
        owns: (m,) rows of `OWN` of our own spans; `spans["own"]` holds indices into them.
        links: (l,) rows of `LINK`: an own stage and a span that it comes after.
        trace: (n,) number of the trace, from 0.
        parent: (n,) row of the parent, or `ROOT` or `LOST`.
        depth: (n,) depth in the tree, 0 for a span without parent.
        start: (n,) cleaned start, nanoseconds since 1970.
        end: (n,) cleaned end, nanoseconds since 1970.
        state: (n,) changes that cleaning made, as a bit set.
        counts: number of spans and traces read, changed and left out, by kind.
    """

    spans: Rows
    owns: Rows
    links: Rows
    names: Names
    trace: Ints
    parent: Ints
    depth: Ints
    start: Ints
    end: Ints
    state: Ints
    counts: Counter[str] = field(default_factory=Counter)

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def service(self) -> Ints:
        """(n,): number of each span's service."""
        return services_of(self.names)[self.spans["op"]] if len(self) else np.empty(0, np.int64)

    def inherited(self, own: Ints) -> Ints:
        """(n,): each span's own value, or that of its nearest ancestor with a value; -1 for none.

        Args:
            own: (n,) values, 0 or more; -1 for none.
        """
        values = own.copy()
        for rows in levels(self.depth)[1:]:
            bare = rows[values[rows] < 0]
            values[bare] = values[self.parent[bare]]
        return values

    def owners(self, rows: Ints) -> Ints:
        """(n,): index in `rows` of the row that each span is, or is nearest below; -1 for none."""
        own = np.full(len(self), -1, np.int64)
        own[rows] = np.arange(len(rows))
        return self.inherited(own)

    def without_ids(self) -> Forest:
        """The same trees, of spans without ids and times as written; only for traces without own spans."""
        return replace(self, spans=without_ids(self.spans))

    def find(self, traces: Ints, ids: Ids) -> Ints:
        """Rows of the spans with these ids in these traces; `LOST` for a missing span."""
        return _find(self.spans["span"], self.trace, traces, ids)


def grow(store: SpanStore) -> Forest:
    """Build and clean the trees of all spans of a store, which is empty afterwards."""
    counts: Counter[str] = Counter()
    names = store.names
    services = services_of(names)
    spans, owns, links = _identified(store.columns(), services, counts)
    _settle(spans, names)
    counts["spans_read"], counts["spans_sampled_out"] = store.read, store.sampled_out
    trace = _numbered(trace_keys(spans))
    service = services[spans["op"]] if len(spans) else np.empty(0, np.int64)
    parent = _parents(spans, trace, service)
    _open_scopes(spans, parent, service, names)
    joined = _join_clients(spans, parent, trace, service)
    counts["spans_joined"] = joined + _join_servers(spans, parent, trace, service, names)
    # A caller of our service may write its spans elsewhere, so such a parent is not counted as lost.
    own_request = owns["role"][spans["own"]] == c.REQUEST if len(owns) else np.zeros(len(spans), np.bool_)
    counts["spans_orphaned"] = int(((parent == LOST) & ~(own_request & (spans["own"] >= 0))).sum())
    counts["traces"] = int(trace[-1]) + 1 if len(trace) else 0
    depth = _depths(parent)
    reached = depth >= 0
    fit = reached & (depth <= MAX_DEPTH)
    counts["spans_cyclic"] = int((~reached).sum())
    counts["spans_too_deep"] = int((reached & ~fit).sum())
    if not fit.all():
        (spans, owns, links), trace, parent, depth = _without(fit, (spans, owns, links), trace, parent, depth)
    forest = Forest(
        spans,
        owns,
        links,
        names,
        trace.astype(ROW),
        parent.astype(ROW),
        depth.astype(DEPTH),
        spans["start"].astype(np.int64),
        spans["end"].astype(np.int64),
        np.zeros(len(spans), STATE),
        counts,
    )
    _clean(forest)
    return forest


def services_of(names: Names) -> Ints:
    """Number of the service of each operation, in the order in which services were read."""
    return np.array(names.services, np.int64)


def without_operations(forest: Forest, patterns: Iterable[str]) -> Forest:
    """Forest without the spans of some operations; their children become children of their parents.

    Args:
        forest: forest of all spans.
        patterns: names or shell patterns of `operation` or `service:operation`.

    Raises:
        InputError: for a pattern that no operation matches.
    """
    dropped = np.zeros(len(forest.names.operations), np.bool_)
    for pattern in patterns:
        meant = [
            fnmatchcase(name, pattern) or fnmatchcase(f"{service}:{name}", pattern)
            for service, name in forest.names.operations
        ]
        if not any(meant):
            raise InputError(f"no operation matches {pattern!r}", where="ignore")
        dropped |= np.array(meant, np.bool_)
    keep = ~dropped[forest.spans["op"]]
    forest.counts["spans_ignored"] = int(len(keep) - keep.sum())
    parent = forest.parent.copy()
    for rows in levels(forest.depth)[1:]:  # from the top: a dropped parent's parent is settled already
        above = parent[rows]
        parent[rows] = np.where(keep[above], above, parent[above])
    parent = np.maximum(parent, LOST)
    part = (forest.spans, forest.owns, forest.links)
    (spans, owns, links), trace, moved, _ = _without(keep, part, forest.trace, parent, forest.depth)
    return Forest(
        spans,
        owns,
        links,
        forest.names,
        trace,
        moved.astype(ROW),
        _depths(moved).astype(DEPTH),
        forest.start[keep],
        forest.end[keep],
        forest.state[keep],
        forest.counts,
    )


def levels(depth: Ints) -> list[Ints]:
    """Rows grouped by depth, spans without a parent first."""
    if not len(depth):
        return []
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(1, int(depth.max()) + 1))
    return np.split(order, bounds)


def _settle(spans: Rows, names: Names) -> None:
    """Let operations that were named by concrete paths with identifiers count by their spans' names."""
    if names.from_paths:
        settled = np.append(names.settled(), c.NO_CALLEE)  # the last element is for `NO_CALLEE`, which is -1
        spans["op"], spans["callee"] = settled[spans["op"]], settled[spans["callee"]]


def _identified(
    part: tuple[Rows, Rows, Rows], service: Ints, counts: Counter[str]
) -> tuple[Rows, Rows, Rows]:
    """Spans with an id, without duplicates, grouped by trace and sorted by id.

    Spans with the same id, service and kind are duplicates, of which the longest stays. Other spans with the
    same id are the sides of a call (Zipkin, Brave, Envoy), the client's first.

    Args:
        part: spans as read, with their notes and links.
        service: (operations,) number of the service of each operation.
        counts: counts of spans left out, which are added to.
    """
    spans = part[0]
    named = (spans["span"] != 0) & ((spans["lo"] | spans["hi"]) != 0)
    counts["spans_without_id"] = int(len(spans) - named.sum())
    if not named.all():
        part = select(part, named)
        spans = part[0]
    keys = trace_keys(spans)
    order = np.lexsort((spans["start"] - spans["end"], spans["span"], keys))
    spans, keys = taken(spans, order), keys[order]
    part = (spans, *part[1:])
    shared = np.zeros(len(spans), np.bool_)
    shared[1:] = (keys[1:] == keys[:-1]) & (spans["span"][1:] == spans["span"][:-1])
    counts["spans_duplicate"] = 0
    if not shared.any():
        return part
    shared[:-1] |= shared[1:]
    rows = np.flatnonzero(shared)
    some = spans[rows]
    side, owner = _SIDES[some["flags"] & _KIND_FLAGS], service[some["op"]]
    code = np.cumsum(np.r_[True, (np.diff(keys[rows]) != 0) | (np.diff(some["span"]) != 0)])
    # The longest of one service and kind comes first.
    alike = np.lexsort((some["start"] - some["end"], owner, side, code))
    again = np.zeros(len(rows), np.bool_)
    columns = (code[alike], side[alike], owner[alike])
    again[1:] = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    counts["spans_duplicate"] = int(again.sum())
    # In the rows of one id: the client's side, then the longer before the shorter, duplicates dropped.
    kept = alike[~again]
    kept = kept[np.lexsort(((some["start"] - some["end"])[kept], side[kept], code[kept]))]
    keep = ~shared
    keep[rows[kept]] = True
    places = np.arange(len(spans))
    places[np.sort(rows[kept])] = rows[kept]
    part = (taken(spans, places), *part[1:])
    return select(part, keep) if not keep.all() else part


def _parents(spans: Rows, trace: Ints, service: Ints) -> Ints:
    """(n,): row of the parent of each span, `ROOT` or `LOST`.

    The second of two spans with one id is the server's side of the first one's call, and so its child. A
    child that states their id is the client's if it is of the client's service alone, else the server's.

    Args:
        spans: (n,) spans, grouped by trace and sorted by id.
        trace: (n,) number of each span's trace.
        service: (n,) number of each span's service.
    """
    parent = np.full(len(spans), ROOT, np.int64)
    child = np.flatnonzero(spans["parent"] != 0)
    parent[child] = _find(spans["span"], trace, trace[child], spans["parent"][child])
    inner = np.zeros(len(spans), np.bool_)
    inner[1:] = (trace[1:] == trace[:-1]) & (spans["span"][1:] == spans["span"][:-1])
    if not inner.any():
        return parent
    # Number of sides behind the client's, by row of the client's.
    first = np.maximum.accumulate(np.where(inner, 0, np.arange(len(spans))))
    sides = np.bincount(first, minlength=len(spans)) - 1
    below = child[(parent[child] >= 0) & (sides[np.maximum(parent[child], 0)] > 0)]
    client = parent[below]
    last = client + sides[client]
    theirs = (service[below] == service[client]) & (service[below] != service[last])
    parent[below] = np.where(theirs, client, last)
    parent[inner] = np.flatnonzero(inner) - 1
    return parent


def services_asked(spans: Rows, names: Names) -> Ints:
    """(k,): number of the service that each client's span says it calls; -1 where the span names none."""
    unnamed = np.array([service == UNNAMED for service, _ in names.operations], np.bool_)
    numbers = np.where(unnamed, -1, services_of(names))
    callee = spans["callee"]
    return np.where(callee >= 0, numbers[np.maximum(callee, 0)], -1)


def _open_scopes(spans: Rows, parent: Ints, service: Ints, names: Names) -> None:
    """Take clients' spans that only hold calls, as while a connection is open, for work of the caller.

    Below such a span one client's span asks for the same service, and another for another one.
    """
    client = spans["flags"] & c.CLIENT != 0
    inner = np.flatnonzero(client & (parent >= 0))
    inner = inner[client[parent[inner]]]
    if not len(inner):
        return
    asked, called = services_asked(spans, names), np.full(len(spans), -1, np.int64)
    below = np.flatnonzero(parent >= 0)
    below = below[service[below] != service[parent[below]]]
    called[parent[below]] = service[below]
    whose = asked[parent[inner]]
    other = np.where(asked[inner] >= 0, asked[inner], called[inner])
    holds = np.zeros((2, len(spans)), np.bool_)
    holds[0, parent[inner[(whose >= 0) & (asked[inner] == whose) & (called[inner] < 0)]]] = True
    holds[1, parent[inner[(whose >= 0) & (other >= 0) & (other != whose)]]] = True
    spans["flags"][holds.all(axis=0)] &= ~np.uint8(c.CLIENT)


def _join_clients(spans: Rows, parent: Ints, trace: Ints, service: Ints) -> int:
    """Join clients' spans whose parents nobody exported to the last entry of their service; their number.

    A client's span and its parent are of one process: it belongs to the request or call in whose time it is.
    """
    sends = spans["flags"] & (c.CLIENT | c.PRODUCER) != 0
    orphans = np.flatnonzero((parent == LOST) & sends)
    if not len(orphans):
        return 0
    entries = np.flatnonzero(((parent < 0) | (service != service[np.maximum(parent, 0)])) & ~sends)
    rows = np.r_[entries, orphans]
    order = np.lexsort((np.arange(len(rows)), spans["start"][rows], service[rows], trace[rows]))
    entry = np.maximum.accumulate(np.where(order < len(entries), np.arange(len(order)), -1))
    at = np.empty(len(order), np.int64)
    at[order] = entry
    above = rows[order[np.maximum(at[len(entries) :], 0)]]
    fits = (at[len(entries) :] >= 0) & (trace[above] == trace[orphans]) & (service[above] == service[orphans])
    fits &= spans["end"][orphans] <= spans["end"][above] + CLOCK_NS
    return _joined(parent, orphans[fits], above[fits])


def _joined(parent: Ints, rows: Ints, above: Ints) -> int:
    """Set the parents of some spans, but for those that would be below themselves; number of those set."""
    before = parent.copy()
    parent[rows] = above  # of several, the last is written last
    looped = (_depths(parent) < 0) & (before != parent)
    parent[looped] = before[looped]
    return int((before != parent).sum())


def _join_servers(spans: Rows, parent: Ints, trace: Ints, service: Ints, names: Names) -> int:
    """Join servers' spans that stand below no client's span to the one that calls them; their number.

    Nobody exported their parents, as of gateways, or they stand beside the client's span. A client's span
    without a child calls the server's span if it lies in the client's time and is of the service or of the
    route that the client asks for; of several, the last that began.
    """
    flags = spans["flags"]
    above = np.maximum(parent, 0)
    beside = (parent >= 0) & (flags[above] & c.CLIENT == 0) & (service != service[above])
    orphans = np.flatnonzero((beside | (parent == LOST)) & (flags & c.SERVER != 0))
    if not len(orphans):
        return 0
    leaf = np.ones(len(spans), np.bool_)
    leaf[parent[parent >= 0]] = False
    clients = np.flatnonzero(leaf & (flags & c.CLIENT != 0) & (spans["callee"] >= 0))
    clients = clients[np.isin(trace[clients], trace[orphans])]
    low, high = (np.searchsorted(trace[clients], trace[orphans], side) for side in ("left", "right"))
    within = np.repeat(np.arange(len(orphans)), high - low)
    client = clients[np.arange(len(within)) - np.repeat(np.cumsum(high - low) - high, high - low)]
    orphan = orphans[within]
    start, end = spans["start"], spans["end"]
    held = (start[client] <= start[orphan] + CLOCK_NS) & (end[client] >= end[orphan] - CLOCK_NS)
    held &= end[client] - start[client] >= end[orphan] - start[orphan]
    held &= (parent[orphan] == LOST) | (parent[orphan] == parent[client])
    pairs = {
        pair: _asks_for(names.operations[pair[0]], names.operations[pair[1]])
        for pair in set(zip(spans["callee"][client].tolist(), spans["op"][orphan].tolist(), strict=True))
    }
    asked = [
        pairs[pair]
        for pair in zip(spans["callee"][client].tolist(), spans["op"][orphan].tolist(), strict=True)
    ]
    fits = np.flatnonzero(held & np.array(asked, np.bool_))
    fits = fits[np.argsort(start[client[fits]], kind="stable")]
    return _joined(parent, orphan[fits], client[fits])


def _asks_for(callee: tuple[str, str], served: tuple[str, str]) -> bool:
    """Whether a client's callee is the service of a server's span, or asks for its route or its name."""
    route, path = (name.rpartition(" ")[2] for name in (served[1], callee[1]))
    if callee[0] == UNNAMED and served[0] in path.split("/"):
        return True
    host = callee[0].partition(".")[0]
    return served[0] in {callee[0], host} or (len(route) > 1 and "/" in route and path.endswith(route))


def _numbered(keys: Ids) -> Ints:
    """(n,): number of each group of equal adjacent keys, from 0."""
    numbers = np.zeros(len(keys), np.int64)
    numbers[1:] = np.cumsum(keys[1:] != keys[:-1])
    return numbers


def _find(ids: Ids, trace: Ints, traces: Ints, wanted: Ids) -> Ints:
    """Rows of ids in traces, by bisection for all of them at once; `LOST` for a missing id.

    Args:
        ids: (n,) span ids, ascending within each trace.
        trace: (n,) numbers of their traces, ascending.
        traces: (k,) numbers of the traces to search.
        wanted: (k,) span ids to find.
    """
    if not len(ids):
        return np.full(len(wanted), LOST, np.int64)
    firsts = np.searchsorted(trace, np.arange(int(trace[-1]) + 2))
    low, high = firsts[traces], firsts[traces + 1]
    ends = high
    last = len(ids) - 1
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        below = (low < high) & (ids[np.minimum(middle, last)] < wanted)
        low, high = np.where(below, middle + 1, low), np.where(below, high, np.maximum(low, middle))
    there = (low < ends) & (ids[np.minimum(low, last)] == wanted)
    return np.where(there, low, LOST)


def _depths(parent: Ints) -> Ints:
    """(n,): depth of each span, by pointer doubling; -1 for spans in or below a cycle."""
    depth = (parent >= 0).astype(np.int64)
    above = np.maximum(parent, ROOT)
    rows = np.flatnonzero(above >= 0)
    for _ in range(len(parent).bit_length() + 1):
        if not len(rows):
            return depth
        ancestors = above[rows]
        more, further = depth[ancestors], above[ancestors]
        depth[rows] += more
        above[rows] = further
        rows = rows[further >= 0]
    depth[rows] = -1
    return depth


def _without(
    keep: Bools, part: tuple[Rows, Rows, Rows], trace: Ints, parent: Ints, depth: Ints
) -> tuple[tuple[Rows, Rows, Rows], Ints, Ints, Ints]:
    """Columns of the rows to keep; no kept row has a removed parent."""
    places = np.cumsum(keep) - 1
    kept = parent[keep]
    moved = np.where(kept >= 0, places[kept], kept)
    return select(part, keep), trace[keep], moved, depth[keep]


def _clean(forest: Forest) -> None:
    """Shift, clip or detach children that do not fit their parents' times, from the roots down."""
    spans, parent, counts = forest.spans, forest.parent, forest.counts
    service = forest.service
    finish_spans(spans, parent, forest.end, service, levels(forest.depth))
    moved = np.zeros(len(forest), np.int64)
    alone = states_no_wait(spans, forest.names, parent, service)
    late = late_clocks(spans, parent, service, forest.start, forest.end, alone)
    finish_clients(
        spans, forest.names, parent, service, forest.start, forest.end, alone | late, levels(forest.depth)
    )
    left = outlasting(spans, parent, service, forest.start, forest.end, alone | late)
    alone |= left
    counts["calls_not_waited_for"] = int(left.sum())
    for rows in levels(forest.depth)[1:]:
        above = parent[rows]
        moved[rows] = moved[above]
        forest.start[rows] += moved[rows]
        forest.end[rows] += moved[rows]
        aside = (forest.state[above] & DETACHED != 0) | alone[rows]
        forest.state[rows[aside]] |= DETACHED
        inside = rows[~aside]
        _shift(forest, inside[service[inside] != service[parent[inside]]], moved, late)
        _clip(forest, inside)
    nameless = np.array([service == c.UNKNOWN for service, _ in forest.names.operations], np.bool_)
    counts["spans_without_service"] = int(nameless[spans["op"]].sum()) if len(spans) else 0
    counts["spans_unfinished"] = int((spans["flags"] & c.UNFINISHED != 0).sum())
    counts["spans_negative"] = int((spans["flags"] & c.NEGATIVE != 0).sum())
    counts["spans_shifted"] = int((forest.state & SHIFTED != 0).sum())
    counts["spans_clipped"] = int((forest.state & CLIPPED != 0).sum())
    counts["spans_detached"] = int((forest.state & DETACHED != 0).sum())


def _shift(forest: Forest, rows: Ints, moved: Ints, late: Bools) -> None:
    """Move spans of skewed clocks, with all below them: those that started before their caller or are late.

    A span that fits is centred in the caller's time, as Jaeger's query service does; else it is moved to the
    caller's start.
    """
    above = forest.parent[rows]
    skewed = (forest.start[rows] < forest.start[above]) | late[rows]
    rows, above = rows[skewed], above[skewed]
    room = (forest.end[above] - forest.start[above]) - (forest.end[rows] - forest.start[rows])
    delta = forest.start[above] + np.maximum(room, 0) // 2 - forest.start[rows]
    forest.start[rows] += delta
    forest.end[rows] += delta
    moved[rows] += delta
    forest.state[rows] |= SHIFTED


def _clip(forest: Forest, rows: Ints) -> None:
    """Cut spans to their parents' times; a span wholly outside was not waited for and is detached."""
    above = forest.parent[rows]
    first, last = forest.start[above], forest.end[above]
    start, end = forest.start[rows], forest.end[rows]
    outside = (
        (start > last) | (end < first) | ((start == last) & (end > start)) | ((end == first) & (start < end))
    )
    forest.state[rows[outside]] |= DETACHED
    cut = ~outside & ((start < first) | (end > last))
    forest.state[rows[cut]] |= CLIPPED
    forest.start[rows[cut]] = np.maximum(start, first)[cut]
    forest.end[rows[cut]] = np.minimum(end, last)[cut]
