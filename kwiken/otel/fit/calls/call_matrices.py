"""Matrices of call latencies, requests by shards, and the profile built from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from kwiken.model.latency import DagNode, end_to_end, parents_first
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.otel.fit.calls.stage_order import REQUESTS_AT_ONCE
from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import Forest

Floats = NDArray[np.float64]
NS_PER_MS = 1e6
MIN_REQUESTS_FOR_TAIL = 200  # fewer show hardly any of the tail


@dataclass(frozen=True, kw_only=True)
class CallMatrix(StageProfile):
    """Calls of one stage before its place in the DAG is known: the stage's profile without parents.

    Attributes:
        seen_ms: (n,) time that each request waited for the stage, copies included, milliseconds; 0 if the
            stage was not called. None where this is the latency of the slowest call.
    """

    seen_ms: Floats | None = None

    def seen(self, requests: slice) -> Floats:
        """Times that some requests waited for the stage, as `seen_ms`."""
        if self.seen_ms is not None:
            return self.seen_ms[requests]
        return np.asarray(np.fmax.reduce(self.calls_ms[requests], axis=1, initial=0.0))


def longest_path(nodes: Sequence[DagNode], stages: Mapping[str, CallMatrix], requests: int) -> Floats:
    """(requests,): time of the longest path through the stages, milliseconds.

    Args:
        nodes: names of the stages with their parents, parents first.
        stages: calls of each stage by its name; a node without calls takes no time.
        requests: number of requests, of which some are looked at a time, so that memory does not grow.
    """
    found = np.empty(requests)
    for first in range(0, requests, REQUESTS_AT_ONCE):
        some = slice(first, min(first + REQUESTS_AT_ONCE, requests))
        none = np.zeros(some.stop - some.start)
        seen = {node.name: stages[node.name].seen(some) if node.name in stages else none for node in nodes}
        found[some] = end_to_end(nodes, seen)
    return found


def matrix(shape: tuple[int, int], rows: Ints, columns: Ints, values: Floats) -> Floats:
    """(requests, width): values at their rows and columns, NaN elsewhere; the last one wins a cell."""
    out = np.full(shape, np.nan)
    out[rows, columns] = values
    return out


def in_order(starts: Floats, names: Sequence[str]) -> list[int]:
    """Indices of the stages by mean start, then by name, so that the order of the files does not matter."""
    return sorted(range(len(names)), key=lambda i: (starts[i], names[i]))


def build(
    forest: Forest,
    start: Ints,
    end: Ints,
    *,
    own: SpanMatch,
    own_name: str,
    stages: Sequence[CallMatrix],
    edges: Bools,
) -> Profile:
    """Build the profile of these stages, with the request's own time as a stage before all others.

    The own time is the latency minus the longest path of the stages' times. With it, replaying a row of the
    profile gives that request's latency; if copies were sent, the latency without them.

    Args:
        forest: forest of all spans.
        start: (n,) starts of the requests, ascending; nanoseconds since 1970.
        end: (n,) ends of the requests; nanoseconds since 1970.
        own: service and operation of the spans whose calls are the stages; the profile's service.
        own_name: name of the stage for the request's own time.
        edges: (k, k); True at (a, b) if stage b comes after stage a.
    """
    latency = (end - start) / NS_PER_MS
    profiles = [_stage(calls, _parents(stages, edges, i) or (own_name,)) for i, calls in enumerate(stages)]
    ordered = [_own_time(own_name, own, np.zeros(len(latency))), *profiles]
    ordered = [ordered[i] for i in parents_first(ordered)]
    left = latency - longest_path(ordered, {calls.name: calls for calls in stages}, len(latency))
    # A nanosecond below zero is rounding; more means that calls of a path overlapped in this request.
    forest.counts["clipped_own_time"] = int((left < -1 / NS_PER_MS).sum())
    forest.counts["requests"] = len(latency)
    if len(latency) < MIN_REQUESTS_FOR_TAIL:
        forest.counts["warning_few_requests"] = len(latency)
    return Profile(
        service=own.service,
        stages=(_own_time(own_name, own, np.maximum(left, 0.0)), *ordered[1:]),
        latency_ms=latency,
        started_s=start / 1e9,
        counts={kind: int(number) for kind, number in sorted(forest.counts.items()) if number},
    )


def _parents(stages: Sequence[CallMatrix], edges: Bools, child: int) -> tuple[str, ...]:
    return tuple(stages[parent].name for parent in np.flatnonzero(edges[:, child]).tolist())


def _stage(calls: CallMatrix, after: tuple[str, ...]) -> StageProfile:
    known = {field.name: getattr(calls, field.name) for field in fields(StageProfile)}
    return StageProfile(**known | {"after": after})


def _own_time(name: str, match: SpanMatch, times: Floats) -> StageProfile:
    return StageProfile(
        name=name,
        match=match,
        calls_ms=times[:, None],
        censored=np.zeros((len(times), 1), np.bool_),
        reissuable=False,
    )
