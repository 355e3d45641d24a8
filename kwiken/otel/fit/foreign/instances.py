"""Instances of services that spans name: how many there are at a time, and how each one's calls compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from kwiken.model.profile.profile import Instance, StageProfile
from kwiken.model.service.stage import MAX_REPLICAS
from kwiken.otel.fit.calls.call_matrices import NS_PER_MS, Floats
from kwiken.otel.read import columns as c
from kwiken.otel.read.columns import NO_TEXT, Ints
from kwiken.otel.trace.forest import DETACHED, Forest, services_of
from kwiken.otel.trace.service_calls import ServiceCalls

MIN_KNOWN_SHARE: Final = 0.5  # of a service's calls whose instance is known, for its instances to be counted
MIN_CALLS: Final = 20  # of an instance, and of the others at that time, for them to be compared
MAX_INSTANCES: Final = 1000
SLOW_QUANTILE: Final = 0.95
_US: Final = 1000  # nanoseconds; sums over all spans of a trace stay within 64 bits


class Instances(NamedTuple):
    """Instances of the services that requests reach.

    Attributes:
        counts: by name of the service: the most instances that were seen at one time, 1 or more.
        compared: instances that could be compared with others of their service.
    """

    counts: dict[str, int]
    compared: tuple[Instance, ...]

    def counted(self, stages: Sequence[StageProfile]) -> tuple[StageProfile, ...]:
        """The stages with the number of instances of their services, but for the requests' own time."""
        return tuple(
            stage if stage.own_time else replace(stage, replicas=self.counts.get(stage.match.service))
            for stage in stages
        )


def find_instances(forest: Forest, calls: ServiceCalls, requests: Ints) -> Instances:
    """Find the instances that the spans of requests and of their calls name.

    Instances that replace each other, as at a restart, are one at a time: an instance is there from the start
    of its first call to that of its last one. Two instances are compared by the time that their calls took
    outside of further calls, over the median of their operation, and within the time that both were there.

    Args:
        forest: forest of all spans.
        calls: its requests and calls between services.
        requests: (n,) rows in the whole forest of the requests' spans.
    """
    requests = calls.places[requests]
    tree = calls.forest
    if not len(tree) or (tree.spans["instance"] == NO_TEXT).all():
        return Instances({}, ())
    numbers = services_of(tree.names)
    service = numbers[tree.spans["op"]]
    failed = tree.spans["flags"] & (c.ERROR | c.NEGATIVE) != 0
    there = (tree.owners(requests) >= 0) & (tree.state & DETACHED == 0) & ~failed
    instance = instances_of(forest, calls)
    whole = float((tree.end - tree.start)[requests].sum())
    own = _own_ns(tree)
    counts: dict[str, int] = {}
    compared: list[Instance] = []
    names = {int(n): name for n, (name, _) in zip(numbers, tree.names.operations, strict=True)}
    for number in np.unique(service[there]).tolist():
        mine = np.flatnonzero(there & (service == number))
        known = mine[instance[mine] != NO_TEXT]
        if len(known) < MIN_KNOWN_SHARE * len(mine):
            continue
        counts[names[number]] = min(MAX_REPLICAS, _at_a_time(tree.start[known], instance[known]))
        compared += _compared(tree, names[number], known, instance[known], own[known], whole)
    compared.sort(key=lambda each: (-each.extra, each.service, each.name))
    return Instances(counts, tuple(compared[:MAX_INSTANCES]))


def instances_of(forest: Forest, calls: ServiceCalls) -> Ints:
    """(calls,): number of the text that names the instance of each request or call; `NO_TEXT` if not known.

    The span of a call whose server left none is its caller's, and so is the instance that it names.

    Args:
        forest: forest of all spans.
        calls: its requests and calls between services.
    """
    numbers = services_of(forest.names)
    callees = numbers[calls.forest.spans["op"]] == numbers[forest.spans["op"][calls.rows]]
    return np.where(callees, calls.forest.spans["instance"], NO_TEXT).astype(np.int64)


def _at_a_time(start: Ints, instance: Ints) -> int:
    """The most instances that were there at one time."""
    codes, which = np.unique(instance, return_inverse=True)
    first = np.full(len(codes), np.iinfo(np.int64).max)
    last = np.zeros(len(codes), np.int64)
    np.minimum.at(first, which, start)
    np.maximum.at(last, which, start)
    moments = np.r_[first, last]
    # At one moment, an instance comes before another one goes.
    order = np.lexsort((np.repeat([0, 1], len(codes)), moments))
    return int(np.cumsum(np.repeat([1, -1], len(codes))[order]).max())


def _own_ns(tree: Forest) -> Ints:
    """(calls,): time of each request or call outside of the calls that it makes, nanoseconds."""
    own = tree.end - tree.start
    below = np.flatnonzero((tree.parent >= 0) & (tree.state & DETACHED == 0))
    if not len(below):
        return own
    below = below[np.lexsort((tree.start[below], tree.parent[below]))]
    above = tree.parent[below]
    start = (np.maximum(tree.start[below], tree.start[above]) - tree.start[above]) // _US
    end = (np.minimum(tree.end[below], tree.end[above]) - tree.start[above]) // _US
    # Each caller gets a stretch of time of its own, so that one running maximum serves all of them.
    turn = np.cumsum(np.r_[0, above[1:] != above[:-1]])
    stretch = turn * (int(end.max(initial=0)) + 1)
    start, end = start + stretch, np.maximum(end, start) + stretch
    seen = np.maximum.accumulate(np.r_[np.int64(-1), end[:-1]])
    np.subtract.at(own, above, np.maximum(end - np.maximum(start, seen), 0) * _US)
    return np.asarray(np.maximum(own, 0))


def _compared(
    tree: Forest, service: str, rows: Ints, instance: Ints, own: Ints, whole: float
) -> list[Instance]:
    """Instances of one service beside the others."""
    ops, which = np.unique(tree.spans["op"][rows], return_inverse=True)
    usual = np.array([np.median(own[which == place]) for place in range(len(ops))])[which]
    kept = usual > 0
    rows, own, usual, instance = rows[kept], own[kept], usual[kept], instance[kept]
    times: Floats = own / usual
    start = tree.start[rows]
    found = []
    for code in np.unique(instance).tolist():
        one = instance == code
        if one.all():
            break
        first, last = start[one].min(), start[one].max()
        others = ~one & (start >= first) & (start <= last)
        if others.sum() < MIN_CALLS:
            continue
        one &= (start >= start[others].min()) & (start <= start[others].max())
        if one.sum() < MIN_CALLS:
            continue
        typical, slow = np.quantile(times[others], (0.5, SLOW_QUANTILE))
        mine, mine_slow = np.quantile(times[one], (0.5, SLOW_QUANTILE))
        if typical <= 0:
            continue
        found.append(
            Instance(
                service=service,
                name=tree.names.texts[code],
                calls=int(one.sum()),
                others=len(np.unique(instance[others])),
                other_calls=int(others.sum()),
                times=float(mine / typical),
                slow_times=float(mine_slow / slow),
                above_median=float((times[one] > typical).mean()),
                above_slow=float((times[one] > slow).mean()),
                typical_ms=float(np.median(own[one])) / NS_PER_MS,
                extra=max(0.0, float((own[one] - times[others].mean() * usual[one]).sum()) / max(1.0, whole)),
            )
        )
    return found
