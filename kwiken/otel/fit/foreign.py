"""Profile fitting for services of any origin: DAG and calls are inferred from the spans (design 4)."""

from __future__ import annotations

from dataclasses import replace

from kwiken.errors import InputError
from kwiken.otel.fit.call_matrices import build
from kwiken.otel.fit.nested import MAX_DEPTH, distinct, stages_below
from kwiken.otel.trace import Forest, Requests, label
from kwiken.profile import OWN_TIME, Profile


def fit_foreign(forest: Forest, requests: Requests, *, depth: int = 1) -> Profile:
    """Learn a profile.

    Args:
        forest: forest of all spans.
        requests: requests to learn from.
        depth: number of levels of calls that become stages, from 1; 1 for the direct calls of a request.

    Raises:
        InputError: the requests make no calls, or calls of too many operations, or the depth is out of range.
    """
    if not 1 <= depth <= MAX_DEPTH:
        raise InputError(f"must be from 1 to {MAX_DEPTH}, not {depth}", where="depth")
    root = label(forest, requests.op)
    graph = stages_below(forest, requests.rows, depth)
    if graph is None:
        raise InputError(f"no request of {root!r} makes a call that ends well: there are no stages")
    # The request's own time is named first, so that a stage of the same name is the one that is qualified.
    _, *names = distinct([(root + OWN_TIME,), *((*path, root) for path in graph.paths)])
    rows = requests.rows
    return build(
        forest,
        forest.start[rows],
        forest.end[rows],
        root=forest.names.operations[requests.op],
        stages=[replace(stage, name=name) for stage, name in zip(graph.stages, names, strict=True)],
        edges=graph.edges,
    )
