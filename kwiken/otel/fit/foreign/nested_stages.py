"""Inference of a service's DAG: stages below requests, and nested stages inside of stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from kwiken.otel.fit.calls.call_matrices import NS_PER_MS, CallMatrix, Floats, in_order, longest_path, matrix
from kwiken.otel.fit.calls.repeated_calls import clock_ticks
from kwiken.otel.fit.calls.stage_order import REQUESTS_AT_ONCE, acyclic, order_in_time, reduction
from kwiken.otel.fit.foreign.callees import Callees
from kwiken.otel.fit.foreign.calls_by_stage import (
    LOOP,
    Calls,
    Children,
    Staged,
    direct_calls,
    in_stages,
    inner_calls,
    sorted_out,
)
from kwiken.otel.read.columns import Bools, Ints
from kwiken.otel.trace.forest import ROOT, Forest
from kwiken.otel.trace.requests import label

MAX_DEPTH: Final = 20


class StageStep(NamedTuple):
    """One stage on the way from a request down to a stage.

    Attributes:
        op: number of the operation of its calls.
        turn: number among sequential calls of that operation, from 0.
        own: True if only the stage's own time is meant.
    """

    op: int
    turn: int
    own: bool = False


@dataclass(frozen=True, slots=True)
class Graph:
    """DAG of stages.

    Attributes:
        stages: calls of the k stages, in the order of their start.
        edges: (k, k); True at (a, b) if stage b comes after stage a.
        paths: step of each stage, followed by the steps of the stages that contain it.
        caller: number of the operation of the spans whose calls are the stages.
    """

    stages: Sequence[CallMatrix]
    edges: Bools
    paths: Sequence[tuple[StageStep, ...]]
    caller: int

    def sources(self) -> Ints:
        """Stages without a parent."""
        return np.flatnonzero(~self.edges.any(axis=0))

    def sinks(self) -> Ints:
        """Stages without a child."""
        return np.flatnonzero(~self.edges.any(axis=1))

    def latency_ms(self) -> Floats:
        """(n,): time of the longest path, milliseconds."""
        nodes = [_Node(str(i), self._after(i)) for i in _parents_first(self.edges)]
        stages = {str(i): stage for i, stage in enumerate(self.stages)}
        return longest_path(nodes, stages, len(self.stages[0].calls_ms))

    def _after(self, stage: int) -> tuple[str, ...]:
        return tuple(map(str, np.flatnonzero(self.edges[:, stage]).tolist()))


class _Node(NamedTuple):
    """A stage as `end_to_end` takes it."""

    name: str
    after: tuple[str, ...]


def _parents_first(edges: Bools) -> list[int]:
    ready: list[int] = []
    waiting = edges.sum(axis=0)
    fresh = np.flatnonzero(waiting == 0).tolist()
    while fresh:
        ready += fresh
        waiting = waiting - edges[fresh].sum(axis=0)
        waiting[ready] = -1
        fresh = np.flatnonzero(waiting == 0).tolist()
    return ready


def stages_below(children: Children, callees: Callees, requests: Ints, depth: int) -> Graph | None:
    """Stages below requests; None if the requests make no successful call.

    Args:
        children: index of the spans, or of the calls between services, by parent.
        requests: (n,) rows of the requests.
        depth: number of levels, 1 or more; 1 for the direct calls. With each further level, calls inside a
            stage become stages of their own, after a stage for the containing stage's own time.

    Raises:
        InputError: there are too many stages.
    """
    forest = children.forest
    level = direct_calls(children, requests)
    calls = sorted_out(forest, level.calls)
    if not len(calls):
        return None
    found = _graph(_Fit(children, callees), _Inside(calls, forest.start[requests], ()), depth)
    caller = int(np.bincount(forest.spans["op"][level.at[level.at >= 0]]).argmax())
    return replace(found, caller=caller)


class _Fit(NamedTuple):
    """What all levels of one fit share: the index of spans by parent, and what is known of callees."""

    children: Children
    callees: Callees


class _Inside(NamedTuple):
    """Calls of one level, to be grouped into stages.

    Attributes:
        zero: (n,) reference time of each request, nanoseconds, so that differences are exact as floats.
        inside: steps to the stages that contain the level, innermost first.
    """

    calls: Calls
    zero: Ints
    inside: tuple[StageStep, ...]


def _graph(fit: _Fit, level: _Inside, depth: int) -> Graph:
    forest = fit.children.forest
    found = in_stages(forest, level.calls, fit.children.turns)
    fit.children.found(len(found.keys))
    places = found.split()
    ticks = clock_ticks(np.zeros_like(found.stage), found.calls.op, found.calls.start)
    tick = np.array([ticks[mine].max() for mine in places], np.float64)
    seen = order_in_time(_extents(found, level.zero), tick, len(level.zero))
    order = in_order(seen.start, [f"{label(forest, op)}#{turn}" for op, turn in found.keys])
    by_start = np.ix_(order, order)
    before, cut = acyclic(seen.before[by_start], seen.together[by_start])
    forest.counts["edges_cut_from_cycles"] += cut
    graph = Graph(
        [_stage(fit.callees, found, number, places[number], len(level.zero)) for number in order],
        reduction(before),
        [(StageStep(*found.keys[number]), *level.inside) for number in order],
        -1,
    )
    inner = (
        {}
        if depth <= 1
        else _inner(fit, found, [places[number] for number in order], graph, level.zero, depth - 1)
    )
    return _spliced(forest, graph, inner) if inner else graph


def _inner(
    fit: _Fit, found: Staged, places: Sequence[Ints], graph: Graph, zero: Ints, depth: int
) -> dict[int, Graph]:
    """Nested stages by index of the containing stage; a fan-out is not split.

    The latency of a fan-out is that of its slowest shard, which is no longest path through stages that each
    span all shards.
    """
    inner: dict[int, Graph] = {}
    children = fit.children
    for place, mine in enumerate(places):
        rows, request = found.calls.row[mine], found.calls.request[mine]
        if found.shard[mine].any():
            children.forest.counts["fan_outs_not_split"] += int(len(inner_calls(children, rows)) > 0)
            continue
        at = np.full(len(zero), ROOT, np.int64)
        at[request] = rows
        calls = sorted_out(children.forest, inner_calls(children, at))
        if len(calls):
            inner[place] = _graph(fit, _Inside(calls, zero, graph.paths[place]), depth)
    return inner


def _spliced(forest: Forest, graph: Graph, inner: dict[int, Graph]) -> Graph:
    """Replace stages that have nested stages by their own time and these nested stages.

    Parents of a replaced stage become parents of its own time; its children come after all nested stages
    without a child. So the longest path through them takes as long as the stage did.
    """
    stages: list[CallMatrix] = []
    paths: list[tuple[StageStep, ...]] = []
    pairs: list[tuple[int, int]] = []
    first, last = np.zeros(len(graph.stages), np.int64), []
    for place, stage in enumerate(graph.stages):
        first[place] = len(stages)
        last.append([len(stages)])
        part = inner.get(place)
        if part is None:
            stages.append(stage)
            paths.append(graph.paths[place])
            continue
        stages.append(_own_part(forest, stage, part))
        paths.append((graph.paths[place][0]._replace(own=True), *graph.paths[place][1:]))
        offset = len(stages)
        stages += part.stages
        paths += part.paths
        pairs += [(offset - 1, offset + int(source)) for source in part.sources()]
        pairs += [(offset + int(a), offset + int(b)) for a, b in np.argwhere(part.edges)]
        last[place] = [offset + int(sink) for sink in part.sinks()]
    pairs += [(end, int(first[b])) for a, b in np.argwhere(graph.edges) for end in last[a]]
    edges = np.zeros((len(stages), len(stages)), np.bool_)
    edges[tuple(np.array(pairs, np.int64).T)] = True
    return Graph(stages, edges, paths, graph.caller)


def _own_part(forest: Forest, stage: CallMatrix, inside: Graph) -> CallMatrix:
    """Own time of a stage: its latency minus that of the longest path inside it.

    The own time is not reissuable: no copy can be sent of that part alone.
    """
    left = stage.calls_ms[:, 0] - inside.latency_ms()
    forest.counts["clipped_stage_time"] += int((left < -1 / NS_PER_MS).sum())
    own = np.where(np.isnan(left), np.nan, np.maximum(left, 0.0))
    return replace(stage, calls_ms=own[:, None], reissuable=False, writes="")


def _extents(found: Staged, zero: Ints) -> Iterator[tuple[Floats, Floats]]:
    """(requests, stages) each: start of each stage's first call and end of its last one; NaN if not called.

    The requests come in parts, since both together are as large as the calls of all stages.
    """
    calls, stages = found.calls, len(found.keys)
    order = np.argsort(calls.request, kind="stable")
    bounds = range(0, len(zero) + REQUESTS_AT_ONCE, REQUESTS_AT_ONCE)
    for first, (low, high) in zip(
        bounds, pairwise(np.searchsorted(calls.request[order], bounds)), strict=False
    ):
        mine = order[low:high]
        request, stage = calls.request[mine], found.stage[mine]
        since, shape = zero[request], (min(REQUESTS_AT_ONCE, len(zero) - first), stages)
        start, end = np.full(shape, np.inf), np.full(shape, -np.inf)
        np.minimum.at(start, (request - first, stage), (calls.start[mine] - since).astype(float))
        np.maximum.at(end, (request - first, stage), (calls.end[mine] - since).astype(float))
        start[np.isinf(start)] = np.nan
        end[np.isinf(end)] = np.nan
        yield start, end


def _stage(callees: Callees, found: Staged, number: int, mine: Ints, requests: int) -> CallMatrix:
    calls, shard = found.calls.only(mine), found.shard[mine]
    took = found.took[mine] / NS_PER_MS
    shape = (requests, int(shard.max()) + 1)
    calls_ms = matrix(shape, calls.request, shard, took)
    op, turn = found.keys[number]
    callee = callees.of(op, turn, calls.row)
    writes = callee.writes or (LOOP if op in found.loops else "")
    hedged = callees.hedged(calls.row)
    censored = np.zeros(shape, np.bool_)
    censored[calls.request, shard] = hedged.lost
    instances = callees.instances(calls.row)
    asked = None
    if instances is not None:
        asked = np.full(shape, -1, np.int16)
        asked[calls.request, shard] = instances[0]
    return CallMatrix(
        name="",
        match=callee.match,
        calls_ms=calls_ms,
        censored=censored,
        pairs_ms=hedged.pairs_ms,
        pairs_cut=hedged.pairs_cut,
        reissuable=not writes,
        writes=writes,
        asked=asked,
        replica_names=() if instances is None else instances[1],
    )
