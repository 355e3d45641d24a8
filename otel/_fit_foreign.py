"""A profile from traces of any service: its DAG and its calls are read off the spans alone (design 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken import InputError, Profile, SpanMatch
from otel import _columns as c
from otel._calls import NS_PER_MS, Floats, StageCalls, build, in_order, matrix
from otel._columns import Bools, Ints
from otel._forest import DETACHED, ROOT, Forest
from otel._requests import MOSTLY, Requests, label
from otel._sequence import acyclic, precedence, reduction
from otel._siblings import MAX_TURNS, SHARE, turns

MAX_STAGES: Final = 999  # with the own time, as many as a service may have
MAX_WIDTH: Final = 10_000
MAX_DESCENT: Final = 100


_Key = tuple[int, int]


@dataclass(slots=True)
class _Calls:
    """Direct calls, and the rows of the requests (`top`) that their `request` numbers."""

    top: Ints
    row: Ints
    request: Ints
    op: Ints
    stage: Ints
    shard: Ints

    def only(self, which: Bools) -> _Calls:
        """Some of the calls."""
        columns = (self.row, self.request, self.op, self.stage, self.shard)
        return _Calls(self.top, *(column[which] for column in columns))


def fit_foreign(forest: Forest, requests: Requests) -> Profile:
    """Learn a profile.

    Raises:
        InputError: the requests make no calls, or of too many kinds.
    """
    calls = _sorted_out(forest, _direct_calls(forest, requests))
    if not len(calls.row):
        raise InputError(
            f"no request of {label(forest, requests.op)!r} makes a call that ends well: there are no stages"
        )
    calls, keys = _in_stages(forest, calls)
    start, end = _extents(forest, calls, (len(requests.rows), len(keys)))
    # In the order in which they start, so that the profile reads like a trace.
    order = in_order(np.nanmean(start, axis=0), [_name(forest, key) for key in keys])
    start, end = start[:, order], end[:, order]
    before, forest.counts["edges_cut_from_cycles"] = acyclic(precedence(start, end), _support(start))
    stages = [_stage(forest, calls, number, keys[number]) for number in order]
    root = forest.names.operations[requests.op]
    rows = requests.rows
    return build(
        forest, forest.start[rows], forest.end[rows], root=root, stages=stages, edges=reduction(before)
    )


def _direct_calls(forest: Forest, requests: Requests) -> _Calls:
    """The calls of the first span on the way down from the request that makes several.

    A span whose only child, in all requests, is one call of one name just passes the request on (a client's
    span above its server's, a gateway), so the stages are looked for below it. Where nothing branches at all,
    the request's own child is the one stage.
    """
    owner = np.full(len(forest), -1, np.int64)
    owner[requests.rows] = np.arange(len(requests.rows))
    owner = forest.inherited(owner)
    at = requests.rows
    top: _Calls | None = None
    for _ in range(MAX_DESCENT):
        calls = _children(forest, owner, requests.rows, at)
        if top is None:
            top = calls
        if not len(calls.row):
            return top
        if not _passes_on(calls, len(at)):
            return calls
        at = np.full(len(at), ROOT, np.int64)
        at[calls.request] = calls.row
    return top if top is not None else _children(forest, owner, requests.rows, at)


def _children(forest: Forest, owner: Ints, top: Ints, at: Ints) -> _Calls:
    """The calls that the spans at `at`, one a request, waited for."""
    below = np.flatnonzero((owner >= 0) & (forest.parent >= 0) & (forest.state & DETACHED == 0))
    rows = below[forest.parent[below] == at[owner[below]]]
    unset = np.zeros(len(rows), np.int64)
    return _Calls(top, rows, owner[rows], forest.spans["op"][rows].astype(np.int64), unset, unset)


def _passes_on(calls: _Calls, requests: int) -> bool:
    """Whether each request made at most one call, always of one name, and nearly all made it."""
    single = np.bincount(calls.request, minlength=requests)
    return bool((calls.op == calls.op[0]).all() and single.max() == 1 and single.mean() >= SHARE)


def _sorted_out(forest: Forest, calls: _Calls) -> _Calls:
    """Without the calls that failed or have no duration; their time becomes the request's own.

    Where most calls of an operation carry the error mark, it marks something else (a cache's miss, say), and
    they stay.
    """
    flags = forest.spans["flags"][calls.row]
    negative, failed = flags & c.NEGATIVE != 0, flags & c.ERROR != 0
    names = len(forest.names.operations)
    often = np.bincount(calls.op, weights=failed, minlength=names) > MOSTLY * np.bincount(
        calls.op, minlength=names
    )
    kept = failed & often[calls.op]
    forest.counts["calls_negative"] = int(negative.sum())
    forest.counts["calls_marked_error_kept"] = int(kept.sum())
    forest.counts["calls_failed"] = int((failed & ~kept).sum())
    return calls.only(~negative & (~failed | kept))


def _in_stages(forest: Forest, calls: _Calls) -> tuple[_Calls, list[_Key]]:
    """The calls with their stages and shards, and operation and turn of each stage."""
    found = turns(calls.request, calls.op, forest.start[calls.row], forest.end[calls.row])
    fits = (found.turn < MAX_TURNS) & (found.shard < MAX_WIDTH)
    forest.counts["calls_beyond_bounds"] = int((~fits).sum())
    code = calls.op * MAX_TURNS + found.turn
    keys, stage = np.unique(code[fits], return_inverse=True)
    if len(keys) > MAX_STAGES:
        raise InputError(
            f"there are {len(keys)} stages, and at most {MAX_STAGES} fit; give a root further down"
        )
    kept = calls.only(fits)
    kept.stage, kept.shard = stage.astype(np.int64), found.shard[fits]
    return kept, [divmod(key, MAX_TURNS) for key in keys.tolist()]


def _extents(forest: Forest, calls: _Calls, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """(requests, stages): when each stage's first call began and its last one ended; NaN where not called."""
    start, end = np.full(shape, np.inf), np.full(shape, -np.inf)
    zero = forest.start[
        calls.top[calls.request]
    ]  # from the request's start, where a float still holds every ns
    np.minimum.at(start, (calls.request, calls.stage), (forest.start[calls.row] - zero).astype(float))
    np.maximum.at(end, (calls.request, calls.stage), (forest.end[calls.row] - zero).astype(float))
    start[np.isinf(start)] = np.nan
    end[np.isinf(end)] = np.nan
    return start, end


def _support(start: Floats) -> Floats:
    """(stages, stages): in how many requests both were called."""
    there = (~np.isnan(start)).astype(np.float64)
    return np.asarray(there.T @ there)


def _stage(forest: Forest, calls: _Calls, number: int, key: _Key) -> StageCalls:
    mine = calls.only(calls.stage == number)
    took = (forest.end[mine.row] - forest.start[mine.row]) / NS_PER_MS
    shape = (len(calls.top), int(mine.shard.max()) + 1)
    calls_ms = matrix(shape, mine.request, mine.shard, took)
    op, turn = key
    service, operation = forest.names.operations[op]
    return StageCalls(
        name=_name(forest, key),
        match=SpanMatch(service=service, operation=operation, occurrence=turn + 1),
        calls_ms=calls_ms,
        censored=np.zeros(shape, np.bool_),
        seen_ms=np.fmax.reduce(calls_ms, axis=1, initial=0.0),
    )


def _name(forest: Forest, key: _Key) -> str:
    op, turn = key
    return label(forest, op) + (f"#{turn + 1}" if turn else "")
