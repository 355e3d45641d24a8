"""Merging of failed calls with their retries into one call, as the caller saw it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kwiken.otel.read.columns import Bools, Ints

_NEVER: Final = 1 << 63


class _Call(NamedTuple):
    """One call; `place` is its index in the arrays."""

    start: int
    end: int
    place: int
    op: int
    failed: bool


@dataclass(frozen=True, slots=True)
class Retried:
    """Calls after merging.

    Attributes:
        start: (n,) start of each call's first attempt; its own start if there was one attempt only.
        by: (n,) index of the later attempt that succeeded, of a failed call; -1 for other calls.
    """

    start: Ints
    by: Ints

    @property
    def again(self) -> Bools:
        """(n,): True for a failed call with a later attempt that succeeded."""
        return self.by >= 0


def merge_retries(request: Ints, op: Ints, start: Ints, end: Ints, failed: Bools) -> Retried:
    """Match failed calls with their retries.

    The retry is the next call of the same operation under the same parent that started after the failed one
    had ended, unless the caller made another whole call in between: then the caller had moved on, and it is a
    new call. A call is the retry of one failed call only, so each failed shard has a retry of its own.

    Args:
        request: (n,) index of the request of each call.
        op: (n,) number of its operation.
        start: (n,) start, nanoseconds since 1970.
        end: (n,) end, nanoseconds since 1970.
        failed: (n,) True for calls that failed.
    """
    by = np.full(len(start), -1, np.int64)
    if not failed.any():
        return Retried(start, by)
    begun, after = start.copy(), _retries(request, op, start, end, failed)
    for head in after.keys() - after.values():
        tries = [head]
        while tries[-1] in after:
            tries.append(after[tries[-1]])
        if not failed[tries[-1]]:
            begun[tries[-1]] = start[head]
            by[tries[:-1]] = tries[-1]
    return Retried(begun, by)


def _retries(request: Ints, op: Ints, start: Ints, end: Ints, failed: Bools) -> dict[int, int]:
    """Retry of each failed call, by index; the retry may have failed too."""
    near = np.flatnonzero(np.isin(request, request[failed]))
    columns = (column[near].tolist() for column in (start, end))
    by_request: dict[int, list[_Call]] = defaultdict(list)
    whose, names, fates = request[near].tolist(), op[near].tolist(), failed[near].tolist()
    for owner, call in zip(whose, map(_Call, *columns, near.tolist(), names, fates), strict=True):
        by_request[owner].append(call)
    found: dict[int, int] = {}
    for calls in by_request.values():
        found.update(_of_request(sorted(calls)))
    return found


def _of_request(calls: list[_Call]) -> dict[int, int]:
    """Retries among the calls of one request, given in order of their start."""
    by_name: dict[int, list[_Call]] = defaultdict(list)
    for call in calls:
        by_name[call.op].append(call)
    others = _Others(calls)
    found: dict[int, int] = {}
    for name, same in by_name.items():
        starts = [call.start for call in same]
        free = 0
        # Failed calls that ended first are matched first; a later one then only looks at later calls.
        for call in sorted((c for c in same if c.failed), key=lambda c: (c.end, c.start)):
            free = max(free, bisect_left(starts, call.end))
            if free < len(same) and same[free] is call:  # it took no time
                free += 1
            if free == len(same):
                break
            if not others.whole_call(call.end, same[free].start, name):
                found[call.place] = same[free].place
                free += 1
    return found


class _Others:
    """Index for the question whether a caller made a whole call of another operation in an interval.

    For each call, in order of start, it holds the earliest end among this and later calls, and the earliest
    end among those of another operation.
    """

    def __init__(self, calls: list[_Call]) -> None:
        lasting = [call for call in calls if call.end > call.start]
        self._starts = [call.start for call in lasting]
        self._best: list[tuple[int, int, int]] = []  # end, its name, end of another name
        end, name, other = _NEVER, -1, _NEVER
        for call in reversed(lasting):
            if call.op == name:
                end = min(end, call.end)
            elif call.end < end:
                end, name, other = call.end, call.op, end
            else:
                other = min(other, call.end)
            self._best.append((end, name, other))
        self._best.reverse()

    def whole_call(self, since: int, until: int, name: int) -> bool:
        """True if a call of another operation started at `since` or later and ended by `until`."""
        at = bisect_left(self._starts, since)
        if at == len(self._starts):
            return False
        end, owner, other = self._best[at]
        return (other if owner == name else end) <= until
