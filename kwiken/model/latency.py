"""End-to-end latency over a DAG of stages, its critical paths and its percentiles (Kwiken 2.1 and 5.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Ladder


class DagNode(Protocol):
    """Node of a DAG: a stage by its name and its parents."""

    @property
    def name(self) -> str:
        """Name of the stage."""

    @property
    def after(self) -> tuple[str, ...]:
        """Names of the stage's parents."""


def parents_first(stages: Sequence[DagNode]) -> list[int]:
    """Topological order of stages: their indices, parents before children, otherwise in the order given.

    Args:
        stages: stages in any order.

    Raises:
        InputError: for a duplicate name, an unknown parent, or a cycle; names the stage.
    """
    places = {stage.name: i for i, stage in enumerate(stages)}
    if len(places) < len(stages):
        twice = next(stage.name for i, stage in enumerate(stages) if places[stage.name] != i)
        raise InputError(f"stage {twice!r} is there twice; names must differ")
    for stage in stages:
        for parent in stage.after:
            if parent not in places:
                raise InputError(f"stage {stage.name!r}: `after` names {parent!r}, which is not a stage")
    order: list[int] = []
    done: set[str] = set()
    waiting = list(range(len(stages)))
    while waiting:
        still = []
        for i in waiting:
            if done.issuperset(stages[i].after):
                order.append(i)
                done.add(stages[i].name)
            else:
                still.append(i)
        if len(still) == len(waiting):
            raise InputError(f"stage {stages[still[0]].name!r}: `after` goes round in a cycle")
        waiting = still
    return order


def finish_times(stages: Sequence[DagNode], latency_ms: Mapping[str, Floats]) -> dict[str, Floats]:
    """End of each stage from the start of the request: its latency after the end of its last parent.

    Args:
        stages: stages, parents before children.
        latency_ms: by stage: (n,) latencies, milliseconds.

    Returns:
        By stage: (n,) ends, milliseconds.
    """
    ends: dict[str, Floats] = {}
    for stage in stages:
        start = start_times(stage, ends)
        ends[stage.name] = latency_ms[stage.name] if start is None else latency_ms[stage.name] + start
    return ends


def start_times(stage: DagNode, ends: Mapping[str, Floats], *, out: Floats | None = None) -> Floats | None:
    """(n,): start of a stage, milliseconds: the end of its last parent; None for a source, which starts at 0.

    Args:
        ends: by stage: (n,) ends, milliseconds; at least those of the parents.
        out: (n,) array for the starts of a stage of several parents, milliseconds; None for a fresh one.
    """
    if not stage.after:
        return None
    start = ends[stage.after[0]]
    for parent in stage.after[1:]:
        start = np.maximum(start, ends[parent], out=out)
    return start


def end_to_end(stages: Sequence[DagNode], latency_ms: Mapping[str, Floats]) -> Floats:
    """(n,): latency of whole requests, milliseconds: the length of the longest path (Kwiken equation 5.1).

    Args:
        stages: stages, parents before children.
        latency_ms: by stage: (n,) latencies, milliseconds.

    Raises:
        InputError: when there are no stages.
    """
    if not stages:
        raise InputError("there are no stages")
    ends = finish_times(stages, latency_ms)
    inner = {parent for stage in stages for parent in stage.after}
    sinks = [ends[stage.name] for stage in stages if stage.name not in inner]
    return np.asarray(np.maximum.reduce(sinks))


def critical_path(stages: Sequence[DagNode], latency_ms: Mapping[str, Floats]) -> Bools:
    """Critical path of each request: the stages that the request waited for (Kwiken section 2.1).

    The path is traced back from the stage that ends last, each time to the parent that ends last. Of stages
    that end together, the first is taken.

    Args:
        stages: stages, parents before children.
        latency_ms: by stage: (n,) latencies, milliseconds.

    Returns:
        (stages, n): True where the stage is on the request's critical path.
    """
    ends = finish_times(stages, latency_ms)
    places = {stage.name: i for i, stage in enumerate(stages)}
    times = np.stack([ends[stage.name] for stage in stages])
    on_path = np.zeros(times.shape, dtype=np.bool_)
    requests = np.arange(times.shape[1])
    on_path[np.argmax(times, axis=0), requests] = True
    for i in range(len(stages) - 1, -1, -1):
        parents = [places[name] for name in stages[i].after]
        if parents:
            last = np.asarray(parents)[np.argmax(times[parents], axis=0)]
            on_path[last[on_path[i]], requests[on_path[i]]] = True
    return on_path


PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)


def percentile(latency_ms: Floats, at: float) -> float:
    """One percentile of latencies, by the rule of `percentiles_of`, milliseconds.

    Args:
        latency_ms: (n,) latencies of calls or requests, milliseconds, one or more.
        at: percentile, from 0 to 100.
    """
    return float(np.percentile(latency_ms, at))


def percentiles_of(latency_ms: Floats, at: Sequence[float]) -> list[float]:
    """Percentiles of latencies, milliseconds, by the rule of all verbs that show percentiles of requests.

    The n latencies in rising order stand at the percentiles 0, 100/(n-1), ..., 100. Between two of them the
    percentile is interpolated linearly.

    Args:
        latency_ms: (n,) latencies of calls or requests, milliseconds, one or more.
        at: percentiles, each from 0 to 100.
    """
    return [float(each) for each in np.percentile(latency_ms, at)]


def ladder(latency_ms: Floats) -> Ladder:
    """Ladder of latency percentiles, milliseconds: p50, p90, p95, p99, p99.9.

    Args:
        latency_ms: (n,) latencies of requests, milliseconds.

    Raises:
        InputError: when there are none.
    """
    if not len(latency_ms):
        raise InputError("there are no requests")
    p50, p90, p95, p99, p999 = percentiles_of(latency_ms, PERCENTILES)
    return Ladder(p50_ms=p50, p90_ms=p90, p95_ms=p95, p99_ms=p99, p999_ms=p999)
