"""The calls that spans made: those that the next stages are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.errors import InputError
from kwiken.otel.fit.repeated_calls import MAX_TURNS, SHARE, turns
from kwiken.otel.fit.retries import merge_retries
from kwiken.otel.read import Bools, Ints
from kwiken.otel.read import columns as c
from kwiken.otel.trace import DETACHED, MOSTLY, ROOT, Forest

MAX_STAGES: Final = 999  # with the own time, as many as a service may have
MAX_WIDTH: Final = 10_000
MAX_DESCENT: Final = 100

Key = tuple[int, int]  # operation and turn of a stage


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls, a row each.

    Attributes:
        row: of the call's span; of a call tried again, of its last try.
        request: whose call it is.
        op: of what name.
        start: nanoseconds; of a call tried again, when it was tried first.
        end: nanoseconds.
    """

    row: Ints
    request: Ints
    op: Ints
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.row)

    def only(self, which: Bools | Ints) -> Calls:
        """Some of the calls."""
        columns = (self.row, self.request, self.op, self.start, self.end)
        return Calls(*(column[which] for column in columns))


class Children:
    """Finds what spans called: an index of a forest's spans by their parent."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self._stages = 0
        below = np.flatnonzero((forest.parent >= 0) & (forest.state & DETACHED == 0))
        self._rows = below[np.argsort(forest.parent[below], kind="stable")]
        self._parents = forest.parent[self._rows]

    def found(self, stages: int) -> None:
        """Count stages, of all depths together.

        Raises:
            InputError: there are more than a service may have; says what to do about it.
        """
        self._stages += stages
        if self._stages > MAX_STAGES:
            raise InputError(
                f"there are {self._stages} stages, and at most {MAX_STAGES} fit; "
                "try a root further down, or less depth"
            )

    def of(self, at: Ints) -> Calls:
        """The calls that the spans at these rows, one a request, waited for; `ROOT` for no span."""
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
    """The calls of the first span on the way down from the request that makes several.

    A span whose only child, in all requests, is one call of one name just passes the request on (a client's
    span above its server's, a gateway), so the stages are looked for below it. Where nothing branches at all,
    the request's own child is the one stage.

    Args:
        children: of the spans.
        at: (n,) the requests' spans.
    """
    levels = _way_down(children, at)
    return levels[-1] if _branches(levels[-1], at) else levels[0]


def inner_calls(children: Children, at: Ints) -> Calls:
    """The calls inside of a stage's own calls; none where there are none of their own.

    As for a request. But where nothing branches the call's next one down is the one stage inside it, and the
    other end of the call itself is not: an only child in another service, of a span in its caller's service.

    Args:
        children: of the spans.
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
    callee = above >= 0 and _service(children.forest, above) != service  # the call's other end already
    same = _service(children.forest, int(first.row[0])) == service
    return first if same or callee else levels[1]


def _service(forest: Forest, row: int) -> str:
    return forest.names.operations[int(forest.spans["op"][row])][0]


def _way_down(children: Children, at: Ints) -> list[Calls]:
    """Calls level by level, each below the only call of the one before; the last has several, or none."""
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
    """Whether each request made at most one call, always of one name, and nearly all made it."""
    if not len(calls):
        return False
    single = np.bincount(calls.request, minlength=len(there))[there]
    return bool((calls.op == calls.op[0]).all() and single.max() == 1 and single.mean() >= SHARE)


def sorted_out(forest: Forest, calls: Calls) -> Calls:
    """Without the calls that failed or have no duration; their time becomes the caller's own.

    Where most calls of an operation carry the error mark, it marks something else (a cache's miss, say), and
    they stay. A failed call that was tried again is one call with its later tries, as its caller saw it.
    """
    flags = forest.spans["flags"][calls.row]
    negative, failed = flags & c.NEGATIVE != 0, flags & c.ERROR != 0
    names = len(forest.names.operations)
    often = np.bincount(calls.op, weights=failed, minlength=names) > MOSTLY * np.bincount(
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
    """Calls told apart as stages.

    Attributes:
        calls: k of them.
        stage: (k,) number of the stage, from 0.
        shard: (k,) of the stage's fan-out.
        keys: of the stages.
    """

    calls: Calls
    stage: Ints
    shard: Ints
    keys: Sequence[Key]

    def split(self) -> list[Ints]:
        """By stage: places of its calls."""
        order = np.argsort(self.stage, kind="stable")
        return np.split(order, np.searchsorted(self.stage[order], np.arange(1, len(self.keys))))


def in_stages(forest: Forest, calls: Calls) -> Staged:
    """Tell the calls of one name apart: in turn, or side by side."""
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
