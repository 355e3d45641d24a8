"""A profile from traces of any service: its DAG and its calls are read off the spans alone (design 4)."""

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
        forest: the spans.
        requests: to learn from.
        depth: how many levels of calls become stages; 1 for the direct calls of a request.

    Raises:
        InputError: the requests make no calls, or of too many kinds, or the depth is out of bounds.
    """
    if not 1 <= depth <= MAX_DEPTH:
        raise InputError(f"must be from 1 to {MAX_DEPTH}, not {depth}", where="depth")
    root = label(forest, requests.op)
    graph = stages_below(forest, requests.rows, depth)
    if graph is None:
        raise InputError(f"no request of {root!r} makes a call that ends well: there are no stages")
    # The request's own time is named first, so that a stage of its name is the one to be told apart.
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
