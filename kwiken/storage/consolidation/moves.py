"""Moves: which data sets leave which nodes before the next interval, and which nodes may sleep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.storage.consolidation.packing import (
    NOWHERE,
    DiskNodes,
    NodeLoads,
    PackObjects,
    PackRules,
    consolidate,
)

MB_PER_GB: Final = 1000.0
MARGIN: Final = 0.05  # of a limit, by which a node must stay below to take data


@dataclass(frozen=True, kw_only=True)
class MoveRules:
    """Rules of moving.

    Attributes:
        interval_s: length of an interval, seconds; copies end within it.
        drain: whether lightly loaded nodes are emptied when demand falls.
    """

    interval_s: float = 1800.0
    drain: bool = True


@dataclass(frozen=True)
class DataMove:
    """One object that moves.

    Attributes:
        which: index of the object.
        source: index of the node that it leaves.
        target: index of the node that takes it.
        rate: bandwidth of the copy, a number of MB/s.
        seconds: duration of the copy, seconds.
    """

    which: int
    source: int
    target: int
    rate: float
    seconds: float


@dataclass(frozen=True, eq=False)
class MovePlan:
    """What to do before the next interval.

    Attributes:
        place: (n,) node of each object afterwards.
        moves: moves in the order of their start; all end within the interval.
        late: moves that were wanted and do not fit the interval; their objects stay.
        asleep: (m,) nodes that hold nothing afterwards.
    """

    place: Ints
    moves: tuple[DataMove, ...]
    late: tuple[DataMove, ...]
    asleep: Bools


def update_placement(
    objects: PackObjects,
    nodes: DiskNodes,
    scores: Floats,
    place: Ints,
    rules: PackRules,
    moving: MoveRules,
    *,
    order: Ints,
    resting: Bools | None = None,
) -> MovePlan:
    """Move data sets off nodes that the forecast overloads, and off nodes that can be emptied.

    Args:
        objects: objects with the bandwidth and bytes that the forecast expects.
        scores: (a, a) score of each pair of applications, a share.
        place: (n,) node of each object now.
        order: (n,) objects in the order of placing.
        resting: (n,) objects that moved a short time ago and may not move again; None for none.
    """
    held = np.zeros(len(objects), dtype=bool) if resting is None else resting
    wanted = place.copy()
    leaving = _leaving(NodeLoads(objects, nodes, scores, place.copy()), rules, held)
    wanted[leaving] = NOWHERE
    loads = NodeLoads(objects, nodes, scores, wanted.copy())
    room = _has_room(loads, rules) & (loads.count > 0)
    if len(leaving):
        used, empty = np.flatnonzero(room), np.flatnonzero(loads.count == 0)
        found = consolidate(
            objects, nodes, scores, replace(rules, fit="first"), order=order, start=wanted,
            open_nodes=np.concatenate((used, empty)),
        )  # fmt: skip
        wanted = np.where(found.place >= 0, found.place, place)
    if moving.drain:
        wanted = _drained(objects, nodes, scores, wanted, rules, moving, held)
    return _within_interval(objects, nodes, place, wanted, rules, moving)


def _leaving(loads: NodeLoads, rules: PackRules, held: Bools) -> Ints:
    """Objects to take off overloaded nodes: the smallest first, and no more than needed."""
    objects, leaving = loads.objects, list[int]()
    for node in np.flatnonzero(_overloaded(loads, rules)).tolist():
        residents = np.flatnonzero((loads.place == node) & ~held)
        residents = residents[np.argsort(objects.size[residents], kind="stable")]
        for which in residents.tolist():
            if loads.count[node] < 2 or not _overloaded(loads, rules)[node]:  # noqa: PLR2004 - alone anyway
                break
            leaving.append(which)
            loads.take(node, np.array([which]))
    return np.array(leaving, dtype=np.int64)


def _overloaded(loads: NodeLoads, rules: PackRules) -> Bools:
    over: Bools = (loads.bandwidth > loads.bandwidth_limit) | (loads.size > loads.size_limit)
    return over | (loads.interference > rules.most_interference)


def _has_room(loads: NodeLoads, rules: PackRules) -> Bools:
    """Nodes that stay below their limits by the margin."""
    room: Bools = loads.bandwidth < loads.bandwidth_limit * (1 - MARGIN)
    room &= loads.size < loads.size_limit * (1 - MARGIN)
    return room & (loads.interference < rules.most_interference)


def _drained(
    objects: PackObjects,
    nodes: DiskNodes,
    scores: Floats,
    place: Ints,
    rules: PackRules,
    moving: MoveRules,
    held: Bools,
) -> Ints:
    """Placement after emptying nodes whose residents all find room on other nodes in use."""
    loads = NodeLoads(objects, nodes, scores, place.copy())
    used = np.flatnonzero(loads.count > 0)
    copied = np.zeros(len(nodes))
    budget_gb = rules.reserve_share * nodes.rated * moving.interval_s / MB_PER_GB
    spare = np.maximum(nodes.rated * 0.5 - loads.bandwidth, 0.0) * moving.interval_s / MB_PER_GB
    for node in used[np.argsort(loads.size[used], kind="stable")].tolist():
        residents = np.flatnonzero(loads.place == node)
        if held[residents].any() or loads.size[node] > budget_gb[node] + spare[node]:
            continue
        others = used[(used != node) & (loads.count[used] > 0)]
        others = others[_has_room(loads, rules)[others]]
        by_need = residents[np.argsort(-objects.bandwidth[residents], kind="stable")]
        if not loads.moved(node, by_need, others, rules):
            continue
        arrived = np.bincount(loads.place[residents], weights=objects.size[residents], minlength=len(nodes))
        if ((copied + arrived) > budget_gb + spare).any():
            loads.bring_back(node, residents)
            continue
        copied += arrived
    return loads.place


def _within_interval(
    objects: PackObjects, nodes: DiskNodes, place: Ints, wanted: Ints, rules: PackRules, moving: MoveRules
) -> MovePlan:
    """Moves that end within the interval at the copies' rate on both nodes; others are left out."""
    resident = np.bincount(place[place >= 0], weights=objects.bandwidth[place >= 0], minlength=len(nodes))
    rate = np.maximum(rules.reserve_share * nodes.rated, nodes.rated * 0.5 - resident)
    left = rate * moving.interval_s
    moves, late = list[DataMove](), list[DataMove]()
    after = wanted.copy()
    moved = np.flatnonzero((place != wanted) & (place >= 0))
    for which in moved[np.argsort(objects.size[moved], kind="stable")].tolist():
        source, target = int(place[which]), int(wanted[which])
        bytes_mb = float(objects.size[which]) * MB_PER_GB
        speed = float(min(rate[source], rate[target]))
        move = DataMove(which, source, target, speed, bytes_mb / max(speed, 1e-9))
        if bytes_mb > min(left[source], left[target]):
            late.append(move)
            after[which] = source
            continue
        left[source] -= bytes_mb
        left[target] -= bytes_mb
        moves.append(move)
    held = np.bincount(after[after >= 0], minlength=len(nodes))
    return MovePlan(after, tuple(moves), tuple(late), held == 0)
