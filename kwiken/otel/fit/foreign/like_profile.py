"""Fit of traces into the stages of a profile that was learned from other traces of the same service."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Origin, Profile, StageProfile
from kwiken.otel.fit.calls.call_matrices import NS_PER_MS, CallMatrix, build, matrix
from kwiken.otel.fit.calls.repeated_calls import turns
from kwiken.otel.fit.foreign.callees import Hedged, hedged_calls
from kwiken.otel.fit.foreign.calls_by_stage import LOOP, Calls, Children, merged_loops, sorted_out
from kwiken.otel.fit.foreign.instances import find_instances
from kwiken.otel.fit.foreign.service_times import service_times
from kwiken.otel.read.columns import Ints
from kwiken.otel.trace.forest import ROOT, Forest
from kwiken.otel.trace.requests import Requests, label
from kwiken.otel.trace.service_calls import find_service_calls


def origin_of(profile: Profile) -> Origin:
    """Choices of the fit of a profile.

    Args:
        profile: profile whose stages other traces are to be fitted into.

    Raises:
        InputError: the profile does not say how its stages were found, or has nested stages.
    """
    if profile.origin is None:
        raise InputError(
            "does not say how its stages were found; a profile of another service's traces does, "
            "learned by this version of kwiken fit",
            where="like",
        )
    if profile.origin.depth != 1:
        raise InputError(
            f"has nested stages (depth {profile.origin.depth}), and does not say which stage contains which, "
            "so other traces cannot be fitted into them; fit the model anew with depth 1, the default",
            where="like",
        )
    return profile.origin


def fit_like(forest: Forest, requests: Requests, model: Profile) -> Profile:
    """Learn a profile with the stages, edges and names of another one; only the times are new.

    Calls are assigned to stages by service and operation, then by their position. Calls of which the model
    has no stage are part of the request's own time (`calls_not_in_model`).

    Args:
        forest: forest of all spans.

    Raises:
        InputError: the model does not say how its stages were found, or has nested stages, or no request
            makes a call of one of its stages.
    """
    origin = origin_of(model)
    services = origin.stages == "services"
    between = requests.calls or find_service_calls(forest, requests.rows)
    tree = replace(between.forest, counts=forest.counts) if services else forest
    rows = between.places[requests.rows] if services else requests.rows
    children = Children(tree, services=services)
    calls = sorted_out(tree, children.of(_callers(tree, rows, origin.caller)))
    own, *stages = model.stages
    looped = {_operation(stage) for stage in stages if stage.writes == LOOP}
    calls, took = merged_loops(
        calls, np.flatnonzero([label(tree, op) in looped for op in range(len(tree.names.operations))])
    )
    stage, shard = _assigned(tree, calls, stages)
    known = stage >= 0
    forest.counts["calls_not_in_model"] = int((~known).sum())
    if not known.any():
        raise InputError(
            f"no request of {origin.kind!r} makes a call of one of the model's stages", where="like"
        )
    learned = [
        _stage_calls(
            profile,
            calls.only(stage == number),
            shard[stage == number],
            took[stage == number],
            len(rows),
            hedged_calls(between if services else None, calls.row[stage == number]),
        )
        for number, profile in enumerate(stages)
    ]
    profile = build(
        forest,
        forest.start[requests.rows],
        forest.end[requests.rows],
        own=own.match,
        own_name=own.name,
        stages=learned,
        edges=_edges(stages),
    )
    times = service_times(forest, between, requests.rows)
    instances = find_instances(forest, between, requests.rows)
    return replace(
        profile,
        stages=instances.counted(profile.stages) if services else profile.stages,
        instances=instances.compared,
        service=model.service,
        origin=origin,
        service_names=times.services,
        service_ms=times.service_ms,
        link_names=times.links,
        link_ms=times.link_ms if times.links else None,
    )


def _callers(tree: Forest, rows: Ints, caller: str) -> Ints:
    """(n,): row of the topmost span of the caller's operation in each request; `ROOT` where there is none."""
    owner = tree.owners(rows)
    meant = np.array([":".join(names) == caller for names in tree.names.operations], np.bool_)
    found = np.flatnonzero(meant[tree.spans["op"]] & (owner >= 0)) if len(tree) else np.empty(0, np.int64)
    found = found[np.lexsort((tree.start[found], tree.depth[found]))]
    at = np.full(len(rows), ROOT, np.int64)
    at[owner[found[::-1]]] = found[::-1]  # the topmost is written last, and so wins
    return at


def _assigned(tree: Forest, calls: Calls, stages: list[StageProfile]) -> tuple[Ints, Ints]:
    """Number of the stage of each call, -1 for none, and its shard."""
    found = turns(calls.request, calls.op, calls.start, calls.end)
    stage = np.full(len(calls), -1, np.int64)
    shard = np.zeros(len(calls), np.int64)
    for op in np.unique(calls.op).tolist():
        mine = np.flatnonzero(calls.op == op)
        model = [n for n, each in enumerate(stages) if _operation(each) == label(tree, op)]
        model.sort(key=lambda n: stages[n].match.occurrence)
        widths = [stages[n].calls_ms.shape[1] for n in model]
        if max(widths, default=0) > 1:  # a fan-out: what overlaps belongs together
            turn, part = found.turn[mine], found.shard[mine]
            if len(model) == 1:
                turn, part = np.zeros(len(mine), np.int64), _positions(calls, mine)
        else:
            turn, part = _positions(calls, mine), np.zeros(len(mine), np.int64)
        fits = turn < len(model)
        stage[mine[fits]] = np.array(model, np.int64)[turn[fits]]
        shard[mine[fits]] = part[fits]
    return stage, shard


def _operation(stage: StageProfile) -> str:
    return f"{stage.match.service}:{stage.match.operation}"


def _positions(calls: Calls, mine: Ints) -> Ints:
    """Position of each of these calls among those of its request, in order of their start."""
    order = np.lexsort((calls.end[mine], calls.start[mine], calls.request[mine]))
    request = calls.request[mine][order]
    rank = np.arange(len(mine))
    first = np.r_[True, request[1:] != request[:-1]] if len(mine) else np.empty(0, np.bool_)
    position = np.empty(len(mine), np.int64)
    position[order] = rank - np.maximum.accumulate(np.where(first, rank, 0))
    return position


def _stage_calls(
    model: StageProfile, calls: Calls, shard: Ints, took: Ints, requests: int, hedged: Hedged
) -> CallMatrix:
    shape = (requests, int(shard.max(initial=0)) + 1)
    calls_ms = matrix(shape, calls.request, shard, took / NS_PER_MS)
    censored = np.zeros(shape, np.bool_)
    censored[calls.request, shard] = hedged.lost
    return CallMatrix(
        name=model.name,
        match=model.match,
        calls_ms=calls_ms,
        censored=censored,
        pairs_ms=hedged.pairs_ms,
        pairs_cut=hedged.pairs_cut,
        reissuable=model.reissuable,
        writes=model.writes,
    )


def _edges(stages: list[StageProfile]) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    places = {stage.name: place for place, stage in enumerate(stages)}
    edges = np.zeros((len(stages), len(stages)), np.bool_)
    for child, stage in enumerate(stages):
        for parent in stage.after:
            if parent in places:
                edges[places[parent], child] = True
    return edges
