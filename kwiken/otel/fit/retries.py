"""Failed calls that were tried again: one call, as its caller saw it."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from kwiken.otel.read import Bools, Ints

_NEVER: Final = 1 << 63


class _Call(NamedTuple):
    """One call; `place` is its place in the arrays."""

    start: int
    end: int
    place: int
    op: int
    failed: bool


@dataclass(frozen=True, slots=True)
class Retried:
    """What became of calls once each stands for all its tries.

    Attributes:
        start: (n,) when each call was first tried; its own start where it was tried once.
        again: (n,) whether a failed call was tried again, and a later try ended well.
    """

    start: Ints
    again: Bools


def merge_retries(request: Ints, op: Ints, start: Ints, end: Ints, failed: Bools) -> Retried:
    """Join failed calls with the calls that were made in their place.

    The next call of the same name under the same parent, begun after the failed one had ended, is its retry,
    unless the caller did another whole call in between: then it had gone on, and that is a new call. A call
    stands in for one failed call only, so of several shards that failed each has its own.

    Args:
        request: (n,) whose call it is.
        op: (n,) of what name.
        start: (n,) nanoseconds.
        end: (n,) nanoseconds.
        failed: (n,) which did.
    """
    begun, again = start.copy(), np.zeros(len(start), np.bool_)
    after = _retries(request, op, start, end, failed) if failed.any() else {}
    for head in after.keys() - after.values():
        tries = [head]
        while tries[-1] in after:
            tries.append(after[tries[-1]])
        if not failed[tries[-1]]:
            begun[tries[-1]] = start[head]
            again[tries[:-1]] = True
    return Retried(begun, again)


def _retries(request: Ints, op: Ints, start: Ints, end: Ints, failed: Bools) -> dict[int, int]:
    """By failed call: the call made in its place, which may have failed too."""
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
    """Retries among the calls of one request, which are in order of their start."""
    by_name: dict[int, list[_Call]] = defaultdict(list)
    for call in calls:
        by_name[call.op].append(call)
    others = _Others(calls)
    found: dict[int, int] = {}
    for name, same in by_name.items():
        starts = [call.start for call in same]
        free = 0
        # Those that ended first choose first, and what they chose lies ahead of what is left to choose.
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
    """Answers whether a caller did a whole call of another name within some time.

    From each call on, in order of start, the earliest end is kept, and the earliest end of another name.
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
        """Whether a call of another name began at `since` or later and had ended by `until`."""
        at = bisect_left(self._starts, since)
        if at == len(self._starts):
            return False
        end, owner, other = self._best[at]
        return (other if owner == name else end) <= until
