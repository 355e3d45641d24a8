"""Stages of a foreign trace: calls below a request, grouped by operation and by their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from kwiken.base.errors import InputError
from kwiken.otel.fit.calls.repeated_calls import MAX_TURNS, turns
from kwiken.otel.fit.foreign.retries import merge_retries
from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import ATTEMPTED, DETACHED, ROOT, Forest
from kwiken.otel.trace.requests import MAX_ERROR_SHARE

MAX_STAGES: Final = 999  # with the own time, the maximum of a service
MAX_WIDTH: Final = 10_000
MIN_LOOP_SHARE: Final = 0.01  # of the requests with calls of a name that make more than `MAX_TURNS` of them
LOOP: Final = "a loop of calls in a request"  # why such a stage gets no copies
MAX_DESCENT: Final = 100
MIN_PASS_SHARE: Final = 0.95  # of the requests that a gateway passes on; a few may end in errors
MIN_GATEWAY_SHARE: Final = 0.75  # of a gateway's time that the one call holds
MIN_CALLS_SHARE: Final = 0.5  # of a service's time that its calls hold, for them to be the stages
MIN_WRAPPER_OVERLAP: Final = 0.9  # of the longer of two spans of the same work

Key = tuple[int, int]  # operation of a stage, and its number among sequential calls of that operation


@dataclass(frozen=True, slots=True)
class Calls:
    """Columns of calls, one row a call.

    Attributes:
        row: (k,) row of the call's span; for a retried call, of its last attempt.
        request: (k,) index of the request that made the call.
        op: (k,) number of the operation.
        start: (k,) start, nanoseconds since 1970; for a retried call, of its first attempt.
        end: (k,) end, nanoseconds since 1970.
    """

    row: Ints
    request: Ints
    op: Ints
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.row)

    def only(self, which: Bools | Ints) -> Calls:
        """Subset of the calls; the calls themselves, not a copy, where a mask keeps all of them."""
        if which.dtype == np.bool_ and which.all():
            return self
        columns = (self.row, self.request, self.op, self.start, self.end)
        return Calls(*(column[which] for column in columns))


class Level(NamedTuple):
    """Spans of one level, one a request, and the calls that they make.

    Attributes:
        at: (n,) rows of the spans; `ROOT` for a request that does not reach the level.
    """

    at: Ints
    calls: Calls


class Children:
    """Index of a forest's spans by their parent; spans that were not waited for are left out.

    Args:
        forest: forest of all spans, or of requests and calls between services only.
        services: True if the forest is one of calls between services.
        turns: number of sequential calls of one operation in a request, above which they are a loop.
    """

    def __init__(self, forest: Forest, *, services: bool = False, turns: int = MAX_TURNS) -> None:
        self.forest = forest
        self.turns = turns
        self.services = services
        self._stages = 0
        below = np.flatnonzero((forest.parent >= 0) & (forest.state & (DETACHED | ATTEMPTED) == 0))
        self._rows = below[np.argsort(forest.parent[below], kind="stable")].astype(np.int32)
        self._parents = forest.parent[self._rows]

    def found(self, stages: int) -> None:
        """Add to the number of stages, of all depths together.

        Raises:
            InputError: there are more stages than a service may have; suggests what to do.
        """
        self._stages += stages
        if self._stages > MAX_STAGES:
            raise InputError(
                f"there are {self._stages} stages, and at most {MAX_STAGES} fit; names of spans must be "
                "routes (GET /item/{id}) and hold no identifiers (GET /item/shoe); if so, try a root further "
                "down, or less depth"
            )

    def of(self, at: Ints) -> Calls:
        """Child calls of the spans at these rows, one span a request; `ROOT` for no span.

        Of spans inside a service, one that only stands beside the call that it wraps is left out.
        """
        low, high = (np.searchsorted(self._parents, at, side) for side in ("left", "right"))
        counts = np.where(at >= 0, high - low, 0)
        request = np.repeat(np.arange(len(at)), counts)
        within = np.arange(len(request)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = self._rows[low[request] + within]
        forest = self.forest
        calls = Calls(
            rows, request, forest.spans["op"][rows].astype(np.int64), forest.start[rows], forest.end[rows]
        )
        return calls if self.services else _without_wrappers(calls, self._leaves(rows))

    def _leaves(self, rows: Ints) -> Bools:
        """(k,): True for spans without a child."""
        low, high = (np.searchsorted(self._parents, rows, side) for side in ("left", "right"))
        leaves: Bools = low == high
        return leaves


def _without_wrappers(calls: Calls, leaf: Bools) -> Calls:
    """Calls without those that are the same work as the call beside them.

    A tracer may write a span for the filter or handler that makes a call, and put the call beside it instead
    of below: both begin and end together. In nearly all requests such a span has no child of its own, and
    shares nearly all of its time with the longest call that has children.
    """
    if not leaf.any() or leaf.all():
        return calls
    length = calls.end - calls.start
    rows = np.flatnonzero(~leaf)
    order = rows[np.lexsort((length[rows], calls.request[rows]))]
    longest = np.full(int(calls.request.max()) + 1, -1, np.int64)
    longest[calls.request[order]] = order  # the longest one is written last
    beside = longest[calls.request]
    shared = np.minimum(calls.end, calls.end[beside]) - np.maximum(calls.start, calls.start[beside])
    same = leaf & (beside >= 0) & (shared >= MIN_WRAPPER_OVERLAP * np.maximum(length, length[beside]))
    number, wraps = np.bincount(calls.op), np.bincount(calls.op, weights=same & (length > 0))
    wrapper = wraps >= MIN_PASS_SHARE * np.maximum(number, 1)
    return calls.only(~wrapper[calls.op]) if wrapper.any() else calls


def direct_calls(children: Children, at: Ints) -> Level:
    """Child calls of the topmost span below the request that makes several calls.

    A span whose only child, in nearly all requests, is one call of one operation just forwards the request (a
    client span above its server span, a gateway), so the stages are looked for below it; between services, if
    most of its time is that call. There are four cases:

    1. A span makes several calls: these calls.
    2. As 1, between services, but the calls are less than half of the callee's time: the call of that callee,
       which does most of the work itself.
    3. Nothing branches, and the stages are spans: the request's own child is the only stage.
    4. Nothing branches, and the stages are services: the last service called is.

    Args:
        at: (n,) rows of the requests' spans.
    """
    way = _way_down(children, at)
    branches = len(way[-1].calls) > 0 and _passed_on(children, way[-1]) is None
    if not children.services:
        return way[-1] if branches else way[0]
    if len(way) > 1 and (not branches or _covered(children.forest, way[-1]) < MIN_CALLS_SHARE):
        return way[-2]
    return way[-1]


def inner_calls(children: Children, at: Ints) -> Calls:
    """Calls inside a stage's calls; empty if there are none.

    There are three cases:

    1. A span below the stage's call makes several calls: those calls, as for a request.
    2. No span does: the only child call is the one stage inside.
    3. As 2, but the only child is the server span of the stage's own call (it is in another service, and the
       stage's span is in its caller's): the calls of the server span.

    Args:
        at: (n,) rows of the stage's calls, of one operation, one a request; `ROOT` for none.
    """
    way = _way_down(children, at)
    levels = [level.calls for level in way]
    first = levels[0]
    if len(levels[-1]) and _passed_on(children, way[-1]) is None:
        return levels[-1]
    if not len(first) or children.services:
        return first
    row = int(at[at >= 0][0])
    service = _service(children.forest, row)
    above = int(children.forest.parent[row])
    callee = above >= 0 and _service(children.forest, above) != service  # the span is the server's already
    same = _service(children.forest, int(first.row[0])) == service
    return first if same or callee else levels[1]


def _service(forest: Forest, row: int) -> str:
    return forest.names.operations[int(forest.spans["op"][row])][0]


def _way_down(children: Children, at: Ints) -> list[Level]:
    """Levels of calls, each below the only call of the level above; the last has several calls or none."""
    levels = [Level(at, children.of(at))]
    while len(levels) < MAX_DESCENT and (below := _passed_on(children, levels[-1])) is not None:
        levels.append(Level(below, children.of(below)))
    return levels


def _passed_on(children: Children, level: Level) -> Ints | None:
    """Rows of the calls through which requests pass one level on; None where that level does more.

    Nearly all requests make one call, of one operation; between services it is most of their time. In the
    few others, as with an error or a retry, the last call of that operation counts.
    """
    calls, there = level.calls, level.at >= 0
    if not len(calls):
        return None
    main = calls.op == np.bincount(calls.op).argmax()
    number = np.bincount(calls.request, minlength=len(there))
    single = (number == 1) & (np.bincount(calls.request[main], minlength=len(there)) == 1)
    if single[there].mean() < MIN_PASS_SHARE:
        return None
    below = np.full(len(there), ROOT, np.int64)
    order = np.flatnonzero(main)[np.argsort(calls.end[main], kind="stable")]
    below[calls.request[order]] = calls.row[order]
    if children.services:
        forest, one = children.forest, np.flatnonzero(single)
        inner = (forest.end - forest.start)[below[one]].sum()
        if inner < MIN_GATEWAY_SHARE * (forest.end - forest.start)[level.at[one]].sum():
            return None
    return below


def _covered(forest: Forest, level: Level) -> float:
    """Share of the time of a level's spans in which some call was running."""
    calls, there = level.calls, level.at[level.at >= 0]
    whole = float((forest.end[there] - forest.start[there]).sum())
    if whole <= 0:
        return 1.0
    order = np.lexsort((calls.start, calls.request))
    request, since = calls.request[order], forest.start[level.at[calls.request[order]]]
    # Each request gets a stretch of time of its own, so that one running maximum serves all of them.
    stretch = request * (int((forest.end[there] - forest.start[there]).max()) + 1)
    start, end = calls.start[order] - since + stretch, calls.end[order] - since + stretch
    seen = np.maximum.accumulate(np.r_[np.int64(-1), end[:-1]])
    return float(np.maximum(end - np.maximum(start, seen), 0).sum()) / whole


def sorted_out(forest: Forest, calls: Calls) -> Calls:
    """Remove calls that failed or have a negative duration; their time becomes the caller's own.

    If most calls of an operation carry the error flag, the flag means something else (a cache miss, say), and
    they stay. A failed call and its retries are merged into one call, as the caller saw it.
    """
    negative, failed, kept = failures(forest, calls.row)
    tried = merge_retries(calls.request, calls.op, calls.start, calls.end, failed)
    forest.counts["calls_negative"] += int(negative.sum())
    forest.counts["calls_marked_error_kept"] += int(kept.sum())
    forest.counts["calls_tried_again"] += int(tried.again.sum())
    forest.counts["calls_failed"] += int((failed & ~tried.again).sum())
    return replace(calls, start=tried.start).only(~negative & ~failed)


def failures(forest: Forest, rows: Ints) -> tuple[Bools, Bools, Bools]:
    """(k,) each: calls of negative duration, failed calls, calls whose error flag means something else."""
    flags, op = forest.spans["flags"][rows], forest.spans["op"][rows].astype(np.int64)
    negative, marked = flags & c.NEGATIVE != 0, flags & c.ERROR != 0
    often = np.bincount(op, weights=marked) > MAX_ERROR_SHARE * np.bincount(op)
    kept = marked & often[op] & ~negative
    return negative, marked & ~kept & ~negative, kept


@dataclass(frozen=True, slots=True)
class Staged:
    """Calls grouped into stages.

    Attributes:
        stage: (k,) number of the stage, from 0.
        shard: (k,) number of the shard within the stage's fan-out, from 0.
        took: (k,) duration, nanoseconds; of a loop, the time in which some call of it ran.
        loops: operations whose calls are loops.
    """

    calls: Calls
    stage: Ints
    shard: Ints
    took: Ints
    keys: Sequence[Key]
    loops: Ints

    def split(self) -> list[Ints]:
        """Indices of the calls of each stage."""
        order = np.argsort(self.stage, kind="stable")
        return np.split(order, np.searchsorted(self.stage[order], np.arange(1, len(self.keys))))


def in_stages(forest: Forest, calls: Calls, most: int = MAX_TURNS) -> Staged:
    """Group calls into stages.

    Calls of one operation are sequential stages, or shards of one fan-out. Where requests make more than
    `most` of them one after another, as for each row of a result, all of a request's are one: a loop.
    """
    found = turns(calls.request, calls.op, calls.start, calls.end)
    loops = looping(calls, found.turn, most)
    calls, took = merged_loops(calls, loops)
    if len(loops):
        forest.counts["calls_in_loops"] += len(found.turn) - len(calls)
        found = turns(calls.request, calls.op, calls.start, calls.end)
    fits = (found.turn < MAX_TURNS) & (found.shard < MAX_WIDTH)
    forest.counts["calls_beyond_bounds"] += int((~fits).sum())
    code = calls.op * MAX_TURNS + found.turn
    keys, stage = np.unique(code[fits], return_inverse=True)
    return Staged(
        calls.only(fits),
        stage.astype(np.int64),
        found.shard[fits],
        took[fits],
        [divmod(key, MAX_TURNS) for key in keys.tolist()],
        loops,
    )


def looping(calls: Calls, turn: Ints, most: int) -> Ints:
    """Operations of which a share of the requests makes more than `most` calls one after another.

    Args:
        turn: (k,) number of each call among the sequential ones of its operation and request, from 0.
    """
    if not (turn >= most).any():
        return np.empty(0, np.int64)
    size = int(calls.request.max()) + 1
    often = np.unique((calls.op * size + calls.request)[turn >= most]) // size
    called = np.unique(calls.op * size + calls.request) // size
    loops: Ints = np.unique(often)
    return loops[np.bincount(often)[loops] >= MIN_LOOP_SHARE * np.bincount(called)[loops]]


def merged_loops(calls: Calls, loops: Ints) -> tuple[Calls, Ints]:
    """Calls with all calls of a loop in a request as one, and their durations, nanoseconds.

    A loop lasts from its first start to its last end; its duration is the time in which some call ran, so
    that the time between them stays the caller's own.
    """
    inside = np.isin(calls.op, loops)
    took = calls.end - calls.start
    if not inside.any():
        return calls, took
    rows = np.flatnonzero(inside)
    rows = rows[np.lexsort((calls.start[rows], calls.request[rows], calls.op[rows]))]
    op, request, start, end = calls.op[rows], calls.request[rows], calls.start[rows], calls.end[rows]
    first = np.r_[True, (op[1:] != op[:-1]) | (request[1:] != request[:-1])]
    firsts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    last = np.maximum.reduceat(end, firsts)
    # Each loop gets a stretch of time of its own, so that one running maximum serves all of them.
    shift = group * (int((last - start[firsts]).max()) + 1) - start[firsts][group]
    start, end = start + shift, end + shift
    seen = np.maximum.accumulate(np.r_[np.int64(-1), end[:-1]])
    ran = np.add.reduceat(np.maximum(end - np.maximum(start, seen), 0), firsts)
    merged = replace(calls.only(rows[firsts]), end=last)
    rest = calls.only(~inside)
    columns = ("row", "request", "op", "start", "end")
    joined = Calls(*(np.concatenate([getattr(rest, name), getattr(merged, name)]) for name in columns))
    return joined, np.concatenate([took[~inside], ran])
