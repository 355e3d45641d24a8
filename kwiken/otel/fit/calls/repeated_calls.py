"""Numbering of calls of one operation under one parent: the k-th in sequence, or a shard of a fan-out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import levels

MIN_SHARE: Final = 0.99  # of the requests in which a rule must hold (design 4)
MAX_TURNS: Final = 100
MIN_CALLS_FOR_CLOCK: Final = 20  # fewer may begin at whole milliseconds by chance
MIN_WHOLE_SHARE: Final = 0.9
MS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Turns:
    """Numbers of calls among those of the same operation and request.

    Attributes:
        turn: (n,) number in sequence, from 0; calls of a turn start after those of earlier turns have ended.
        shard: (n,) number among the calls of one turn, from 0, in order of their start.
    """

    turn: Ints
    shard: Ints


def turns(request: Ints, op: Ints, start: Ints, end: Ints) -> Turns:
    """Tell sequential calls from concurrent ones, over all requests at once.

    There are three cases for the calls of one operation:

    1. They overlap in hardly any request: each call is a turn.
    2. Nearly all requests have the same number of groups of overlapping calls: the k-th group is the k-th
       turn (one group: a fan-out).
    3. Otherwise the k-th call opens a new turn if, in nearly all requests that have a k-th call, it started
       after all earlier ones had ended.

    Args:
        request: (n,) index of the request of each call.
        op: (n,) number of its operation.
        start: (n,) start, nanoseconds since 1970.
        end: (n,) end, nanoseconds since 1970.
    """
    order = np.lexsort((end, start, request, op))
    sorted_request, sorted_op = request[order], op[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (sorted_request[1:] != sorted_request[:-1]) | (sorted_op[1:] != sorted_op[:-1])
    place = _since(first)
    turn = np.zeros(len(order), np.int64)
    bounds = np.flatnonzero(np.r_[True, sorted_op[1:] != sorted_op[:-1], True]) if len(order) else [0]
    gap = _gaps(place, start[order], end[order], clock_ticks(np.zeros_like(op), op, start)[order])
    for low, high in pairwise(bounds):
        part = slice(low, high)
        turn[part] = _turns_of(first[part], place[part], gap[part])
    fresh = first.copy()
    fresh[1:] |= turn[1:] != turn[:-1]
    shard = _since(fresh)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return Turns(turn[back], shard[back])


def _since(first: Bools) -> Ints:
    """(n,): number of rows since the last True."""
    rows = np.arange(len(first))
    return rows - np.maximum.accumulate(np.where(first, rows, 0))


def clock_ticks(clock: Ints, op: Ints, start: Ints) -> Ints:
    """(n,): resolution of the clock that timed each call, nanoseconds: a millisecond, or 0 if it is finer.

    Where starts are cut to the millisecond, an end that is the start plus a duration is wrong by up to that.
    So a call may seem to overlap with the one that it waited for. A clock is coarse if nearly all starts of
    every operation say so: those of one alone may do so by construction, as in a simulation.

    Args:
        clock: (n,) number of the clock of each call.
        op: (n,) number of its operation.
        start: (n,) its start, nanoseconds since 1970.
    """
    number, whole = np.bincount(op), np.bincount(op, weights=start % MS == 0)
    judged = number >= MIN_CALLS_FOR_CLOCK
    fine = judged & (whole < MIN_WHOLE_SHARE * number)
    known, contradicted = (np.bincount(clock, weights=which[op]) > 0 for which in (judged, fine))
    return np.where((known & ~contradicted)[clock], MS, 0)


def _gaps(place: Ints, start: Ints, end: Ints, tick: Ints) -> Bools:
    """(n,): True if a call started after all earlier ones of its operation and request had ended.

    An overlap up to the clock's tick does not count, unless the two began at the same tick.
    """
    latest = end.copy()
    gap = np.zeros(len(place), np.bool_)
    for rows in levels(place)[1:]:
        before = latest[rows - 1]
        gap[rows] = (start[rows] >= before) | (
            (before - start[rows] <= tick[rows]) & (start[rows] > start[rows - 1])
        )
        latest[rows] = np.maximum(latest[rows], before)
    return gap


def _turns_of(first: Bools, place: Ints, gap: Bools) -> Ints:
    """(n,): turns of the calls of one operation; the cases are those of `turns`."""
    if not place.any():
        return place
    starts = np.flatnonzero(first)
    overlaps = np.add.reduceat((~gap & ~first).astype(np.int64), starts)
    if (overlaps == 0).mean() >= MIN_SHARE:
        return place
    groups = np.add.reduceat(gap.astype(np.int64), starts)
    usual = int(np.bincount(groups).argmax())
    if (groups == usual).mean() >= MIN_SHARE:
        before = np.cumsum(gap)
        turn: Ints = before - np.repeat(before[starts], np.diff(np.r_[starts, len(first)]))
        return np.minimum(turn, usual)
    calls, breaks = np.bincount(place), np.bincount(place, weights=gap)
    opened: Ints = np.cumsum(breaks >= MIN_SHARE * calls).astype(np.int64)
    return opened[place]
