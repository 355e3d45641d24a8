"""Profile fitting for services of any origin: DAG and calls are inferred from the spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import OWN_TIME, Origin, Profile
from kwiken.otel.fit.calls.call_matrices import build
from kwiken.otel.fit.calls.repeated_calls import MAX_TURNS
from kwiken.otel.fit.foreign.callees import Callees
from kwiken.otel.fit.foreign.calls_by_stage import Children
from kwiken.otel.fit.foreign.instances import find_instances
from kwiken.otel.fit.foreign.nested_stages import MAX_DEPTH, Graph, StageStep, stages_below
from kwiken.otel.fit.foreign.reads_below import Below, seen_below
from kwiken.otel.fit.foreign.service_times import service_times
from kwiken.otel.fit.foreign.stage_names import distinct, fitted, short_names
from kwiken.otel.trace.forest import Forest
from kwiken.otel.trace.requests import MIN_REPEATS, Requests, label, repeated_part
from kwiken.otel.trace.service_calls import find_service_calls

_OWN: Final = "\0"  # marks the name of a stage's own time, until names are unique


def fit_foreign(
    forest: Forest,
    requests: Requests,
    *,
    below: Below | None = None,
    depth: int = 1,
    spans: bool = False,
    ignored: Sequence[str] = (),
) -> Profile:
    """Learn a profile.

    Args:
        forest: forest of all spans.
        requests: requests to learn from.
        below: what was seen below each span; None to look.
        depth: number of levels of calls that become stages, from 1; 1 for the direct calls of a request.
        spans: True if any span is a call; False for calls from one service to another only. Where no request
            calls another service, spans are taken.
        ignored: operations that were left out of the forest.

    Raises:
        InputError: the requests make no calls, or calls of too many operations, or the depth is out of range.
    """
    if not 1 <= depth <= MAX_DEPTH:
        raise InputError(f"must be from 1 to {MAX_DEPTH}, not {depth}", where="depth")
    rows = requests.rows
    calls = requests.calls or find_service_calls(forest, rows)
    # The forest of calls is shared by all kinds of requests; what is set aside counts for this kind.
    calls = replace(calls, forest=replace(calls.forest, counts=forest.counts))
    # Walks over all calls, which take memory: before the calls of the stages are held beside them.
    times = service_times(forest, calls, rows)
    instances = find_instances(forest, calls, rows)
    below = seen_below(forest) if below is None else below
    graph = None
    if not spans:
        waits = repeated_part(forest, rows) >= 0
        children = Children(calls.forest, services=True, turns=MIN_REPEATS if waits else MAX_TURNS)
        graph = stages_below(children, Callees(forest, below, calls), calls.places[rows], depth)
        spans = graph is None
        forest.counts["requests_of_one_service"] = len(rows) if spans else 0
    if graph is None:
        graph = stages_below(Children(forest), Callees(forest, below, None), rows, depth)
    if graph is None:
        raise InputError(
            f"no request of {label(forest, requests.op)!r} makes a call that ends well: there are no stages"
        )
    root = int(np.bincount(forest.spans["op"][rows]).argmax()) if spans else graph.caller
    service, operation = forest.names.operations[root]
    own_name, *names = _names(forest, graph, root, spans=spans)
    profile = build(
        forest,
        forest.start[rows],
        forest.end[rows],
        own=SpanMatch(service=service, operation=operation),
        own_name=own_name,
        stages=[replace(stage, name=name) for stage, name in zip(graph.stages, names, strict=True)],
        edges=graph.edges,
    )
    return replace(
        profile,
        stages=profile.stages if spans else instances.counted(profile.stages),
        instances=instances.compared,
        service=forest.names.operations[requests.op if not spans else root][0],
        origin=Origin(
            kind=label(forest, requests.op),
            caller=label(forest, graph.caller),
            stages="spans" if spans else "services",
            depth=depth,
            ignored=tuple(ignored),
        ),
        service_names=times.services,
        service_ms=times.service_ms,
        link_names=times.links,
        link_ms=times.link_ms if times.links else None,
    )


def _names(forest: Forest, graph: Graph, root: int, *, spans: bool) -> list[str]:
    """Names of the request's own time and of the stages: short and unique."""
    operations = forest.names.operations
    short = short_names([operations[root], *(operations[step.op] for path in graph.paths for step in path)])

    def name(step: StageStep) -> str:
        turn = f"#{step.turn + 1}" if step.turn else ""
        return short[operations[step.op]] + turn + (_OWN if step.own else "")

    top = short[operations[root]] if spans else operations[root][0]
    # The request's own time is named first, so that a stage of the same name is the one that is qualified.
    # Behind `in`, services are told by their routes alone: what matters there is short.
    place = name if spans else lambda step: name(step).partition(":")[2]
    paths = [(top + _OWN,), *((name(path[0]), *map(place, path[1:]), top) for path in graph.paths)]
    unique = distinct(paths)
    return fitted(
        [text.replace(_OWN, "") for text in unique], [OWN_TIME if _OWN in text else "" for text in unique]
    )
