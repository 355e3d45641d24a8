"""Child calls of spans, grouped into stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.errors import InputError
from kwiken.otel.fit.repeated_calls import MAX_TURNS, MIN_SHARE, turns
from kwiken.otel.fit.retries import merge_retries
from kwiken.otel.read import Bools, Ints
from kwiken.otel.read import columns as c
from kwiken.otel.trace import DETACHED, MAX_ERROR_SHARE, ROOT, Forest

MAX_STAGES: Final = 999  # with the own time, the maximum of a service
MAX_WIDTH: Final = 10_000
MAX_DESCENT: Final = 100

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
        """Subset of the calls."""
        columns = (self.row, self.request, self.op, self.start, self.end)
        return Calls(*(column[which] for column in columns))


class Children:
    """Index of a forest's spans by their parent; spans that were not waited for are left out."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._stages = 0
        below = np.flatnonzero((forest.parent >= 0) & (forest.state & DETACHED == 0))
        self._rows = below[np.argsort(forest.parent[below], kind="stable")]
        self._parents = forest.parent[self._rows]

    def found(self, stages: int) -> None:
        """Add to the number of stages, of all depths together.

        Raises:
            InputError: there are more stages than a service may have; suggests what to do.
        """
        self._stages += stages
        if self._stages > MAX_STAGES:
            raise InputError(
                f"there are {self._stages} stages, and at most {MAX_STAGES} fit; "
                "try a root further down, or less depth"
            )

    def of(self, at: Ints) -> Calls:
        """Child calls of the spans at these rows, one span a request; `ROOT` for no span."""
        low, high = (np.searchsorted(self._parents, at, side) for side in ("left", "right"))
        counts = np.where(at >= 0, high - low, 0)
        request = np.repeat(np.arange(len(at)), counts)
        within = np.arange(len(request)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows = self._rows[low[request] + within]
        forest = self.forest
        return Calls(
            rows, request, forest.spans["op"][rows].astype(np.int64), forest.start[rows], forest.end[rows]
        )


def direct_calls(children: Children, at: Ints) -> Calls:
    """Child calls of the topmost span below the request that makes several calls.

    A span whose only child, in all requests, is one call of one operation just forwards the request (a client
    span above its server span, a gateway), so the stages are looked for below it. If no span makes several
    calls, the request's own child is the only stage.

    Args:
        children: index of the spans by parent.
        at: (n,) rows of the requests' spans.
    """
    levels = _way_down(children, at)
    return levels[-1] if _branches(levels[-1], at) else levels[0]


def inner_calls(children: Children, at: Ints) -> Calls:
    """Calls inside a stage's calls; empty if there are none.

    There are three cases:

    1. A span below the stage's call makes several calls: those calls, as for a request.
    2. No span does: the only child call is the one stage inside.
    3. As 2, but the only child is the server span of the stage's own call (it is in another service, and the
       stage's span is in its caller's): the calls of the server span.

    Args:
        children: index of the spans by parent.
        at: (n,) rows of the stage's calls, of one operation, one a request; `ROOT` for none.
    """
    levels = _way_down(children, at)
    if _branches(levels[-1], at):
        return levels[-1]
    first = levels[0]
    if not len(first):
        return first
    row = int(at[at >= 0][0])
    service = _service(children.forest, row)
    above = int(children.forest.parent[row])
    callee = above >= 0 and _service(children.forest, above) != service  # the span is the server's already
    same = _service(children.forest, int(first.row[0])) == service
    return first if same or callee else levels[1]


def _service(forest: Forest, row: int) -> str:
    return forest.names.operations[int(forest.spans["op"][row])][0]


def _way_down(children: Children, at: Ints) -> list[Calls]:
    """Calls by level, each below the only call of the level above; the last has several calls or none."""
    levels = [children.of(at)]
    there = at >= 0
    while _passes_on(levels[-1], there) and len(levels) < MAX_DESCENT:
        last = levels[-1]
        below = np.full(len(at), ROOT, np.int64)
        below[last.request] = last.row
        levels.append(children.of(below))
    return levels


def _branches(calls: Calls, at: Ints) -> bool:
    return len(calls) > 0 and not _passes_on(calls, at >= 0)


def _passes_on(calls: Calls, there: Bools) -> bool:
    """True if no request made more than one call, all of one operation, and nearly all requests made it."""
    if not len(calls):
        return False
    single = np.bincount(calls.request, minlength=len(there))[there]
    return bool((calls.op == calls.op[0]).all() and single.max() == 1 and single.mean() >= MIN_SHARE)


def sorted_out(forest: Forest, calls: Calls) -> Calls:
    """Remove calls that failed or have a negative duration; their time becomes the caller's own.

    If most calls of an operation carry the error flag, the flag means something else (a cache miss, say), and
    they stay. A failed call and its retries are merged into one call, as the caller saw it.
    """
    flags = forest.spans["flags"][calls.row]
    negative, failed = flags & c.NEGATIVE != 0, flags & c.ERROR != 0
    names = len(forest.names.operations)
    often = np.bincount(calls.op, weights=failed, minlength=names) > MAX_ERROR_SHARE * np.bincount(
        calls.op, minlength=names
    )
    kept = failed & often[calls.op]
    failed &= ~kept & ~negative
    tried = merge_retries(calls.request, calls.op, calls.start, calls.end, failed)
    forest.counts["calls_negative"] += int(negative.sum())
    forest.counts["calls_marked_error_kept"] += int((kept & ~negative).sum())
    forest.counts["calls_tried_again"] += int(tried.again.sum())
    forest.counts["calls_failed"] += int((failed & ~tried.again).sum())
    return replace(calls, start=tried.start).only(~negative & ~failed)


@dataclass(frozen=True, slots=True)
class Staged:
    """Calls grouped into stages.

    Attributes:
        calls: the k calls.
        stage: (k,) number of the stage, from 0.
        shard: (k,) number of the shard within the stage's fan-out, from 0.
        keys: key of each stage.
    """

    calls: Calls
    stage: Ints
    shard: Ints
    keys: Sequence[Key]

    def split(self) -> list[Ints]:
        """Indices of the calls of each stage."""
        order = np.argsort(self.stage, kind="stable")
        return np.split(order, np.searchsorted(self.stage[order], np.arange(1, len(self.keys))))


def in_stages(forest: Forest, calls: Calls) -> Staged:
    """Group calls into stages: calls of one operation are sequential stages, or shards of one fan-out."""
    found = turns(calls.request, calls.op, calls.start, calls.end)
    fits = (found.turn < MAX_TURNS) & (found.shard < MAX_WIDTH)
    forest.counts["calls_beyond_bounds"] += int((~fits).sum())
    code = calls.op * MAX_TURNS + found.turn
    keys, stage = np.unique(code[fits], return_inverse=True)
    return Staged(
        calls.only(fits),
        stage.astype(np.int64),
        found.shard[fits],
        [divmod(key, MAX_TURNS) for key in keys.tolist()],
    )
