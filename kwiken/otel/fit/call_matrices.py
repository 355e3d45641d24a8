"""Calls as matrices of requests by shards, and what becomes of them as stages of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kwiken.latency import end_to_end, parents_first
from kwiken.otel.read import Bools, Ints
from kwiken.otel.trace import Forest
from kwiken.plan import SpanMatch
from kwiken.profile import OWN_TIME, Profile, StageProfile

Floats = NDArray[np.float64]
NS_PER_MS = 1e6
FEW = 200  # requests below which the tail is hardly seen


@dataclass(frozen=True, slots=True)
class StageCalls:
    """All calls of one stage.

    Attributes:
        name: of the stage.
        match: which spans they are.
        calls_ms: (requests, width); NaN for no call.
        censored: (requests, width).
        seen_ms: (requests,): how long the stage kept the request waiting, copies and all; 0 where not called.
        busy_ms: mean busy time of a call; None where not measured.
        busy_variation: standard deviation over mean of busy times; None where not measured.
        replicas: how many took calls; None where not told.
        reissuable: whether a copy may be sent.
        pairs_ms: (m, 2): of calls with a copy, both latencies; None where there were none.
        pairs_cut: (m, 2): which were cut short.
        guesses_ms: (m, 2): of late calls, their latency and what a copy would have taken; None if not known.
        asked: (requests, width): which of `replica_names` each primary call went to, -1 for not known.
        replica_names: of the replicas that took calls.
    """

    name: str
    match: SpanMatch
    calls_ms: Floats
    censored: Bools
    seen_ms: Floats
    busy_ms: float | None = None
    busy_variation: float | None = None
    replicas: int | None = None
    reissuable: bool = True
    pairs_ms: Floats | None = None
    pairs_cut: Bools | None = None
    guesses_ms: Floats | None = None
    worth: Floats | None = None
    threads: int = 1
    asked: Ints | None = None
    replica_names: tuple[str, ...] = ()


def matrix(shape: tuple[int, int], rows: Ints, columns: Ints, values: Floats) -> Floats:
    """(requests, width): values at their places, NaN elsewhere; of several for one place, the last."""
    out = np.full(shape, np.nan)
    out[rows, columns] = values
    return out


def in_order(starts: Floats, names: Sequence[str]) -> list[int]:
    """Places of the stages by their mean start, by name where that is the same: whatever the files' order."""
    return sorted(range(len(names)), key=lambda i: (starts[i], names[i]))


def build(
    forest: Forest,
    start: Ints,
    end: Ints,
    *,
    root: tuple[str, str],
    stages: Sequence[StageCalls],
    edges: Bools,
) -> Profile:
    """The profile of these stages, the request's own time before them all.

    The own time is what the longest path of the stages' times does not explain; with it, replaying a row of
    the profile gives that request's latency (but where copies were sent: what it had been without them).

    Args:
        forest: where the spans are.
        start: (n,) when the requests began, ascending; nanoseconds since 1970.
        end: (n,) when they ended.
        root: service and operation of the requests.
        stages: k of them.
        edges: (k, k): True at (a, b) where b comes after a.
    """
    latency = (end - start) / NS_PER_MS
    own_name = ":".join(root) + OWN_TIME
    profiles = [_stage(calls, _parents(stages, edges, i) or (own_name,)) for i, calls in enumerate(stages)]
    own = _own_time(own_name, root, np.zeros(len(latency)))
    ordered = [own, *profiles]
    ordered = [ordered[i] for i in parents_first(ordered)]
    seen = {calls.name: calls.seen_ms for calls in stages} | {own_name: np.zeros(len(latency))}
    left = latency - end_to_end(ordered, seen)
    # Nanoseconds below zero are rounding; more is a path whose calls overlapped in this request after all.
    forest.counts["clipped_own_time"] = int((left < -1 / NS_PER_MS).sum())
    forest.counts["requests"] = len(latency)
    if len(latency) < FEW:
        forest.counts["warning_few_requests"] = len(latency)
    own = _own_time(own_name, root, np.maximum(left, 0.0))
    return Profile(
        service=root[0],
        stages=(own, *ordered[1:]),
        latency_ms=latency,
        started_s=start / 1e9,
        counts={kind: int(number) for kind, number in sorted(forest.counts.items()) if number},
    )


def _parents(stages: Sequence[StageCalls], edges: Bools, child: int) -> tuple[str, ...]:
    return tuple(stages[parent].name for parent in np.flatnonzero(edges[:, child]).tolist())


def _stage(calls: StageCalls, after: tuple[str, ...]) -> StageProfile:
    return StageProfile(
        name=calls.name,
        after=after,
        match=calls.match,
        calls_ms=calls.calls_ms,
        censored=calls.censored,
        busy_ms=calls.busy_ms,
        busy_variation=calls.busy_variation,
        replicas=calls.replicas,
        reissuable=calls.reissuable,
        asked=calls.asked,
        replica_names=calls.replica_names,
        pairs_ms=calls.pairs_ms,
        pairs_cut=calls.pairs_cut,
        guesses_ms=calls.guesses_ms,
        worth=calls.worth,
        threads=calls.threads,
    )


def _own_time(name: str, root: tuple[str, str], times: Floats) -> StageProfile:
    return StageProfile(
        name=name,
        match=SpanMatch(service=root[0], operation=root[1]),
        calls_ms=times[:, None],
        censored=np.zeros((len(times), 1), np.bool_),
        reissuable=False,
    )
