"""A day of a storage cluster, interval by interval: forecast, moves, nodes that sleep, energy, latency."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.storage.consolidation.forecast import DemandForecaster
from kwiken.storage.consolidation.moves import DataMove, MoveRules, update_placement
from kwiken.storage.consolidation.packing import DiskNodes, PackObjects, PackRules, consolidate
from papers.bloc.energy import NodePower, energy_wh
from papers.bloc.packings import next_fit

COOLDOWN: Final = 2  # intervals in which an object is moved at most once


@dataclass(frozen=True, eq=False)
class ClusterDay:
    """What happened in a day.

    Attributes:
        place: (t, n) node of each object in each interval.
        awake: (t, m) nodes that were on in each interval.
        use: (t, m) share of each node's rated bandwidth that was in use.
        moved_gb: (t,) bytes that were copied in each interval, in units of GB.
        late: number of moves that were wanted and did not fit their interval.
        energy_wh: energy of all nodes, in units of Wh.
        copied: (t, m) share of each node's rated bandwidth that copies took.
    """

    place: Ints
    awake: Bools
    use: Floats
    moved_gb: Floats
    late: int
    energy_wh: float
    copied: Floats


@dataclass(frozen=True, kw_only=True)
class DayPolicy:
    """How a day is managed.

    Attributes:
        dynamic: whether data moves during the day.
        for_first: whether data that does not move is packed for the first interval instead of the peak.
        foresight: whether the next interval's demand is known instead of forecast.
        free_moves: whether copies cost nothing and always fit.
        quantile: share of intervals whose demand is to stay below the forecast; None for the published rule.
        awake_always: whether nodes stay on although they hold nothing.
    """

    dynamic: bool = True
    for_first: bool = False
    foresight: bool = False
    free_moves: bool = False
    quantile: float | None = None
    awake_always: bool = False


def play_day(
    objects: PackObjects,
    nodes: DiskNodes,
    scores: Floats,
    demand: Floats,
    history: Floats,
    power: list[NodePower],
    *,
    rules: PackRules,
    moving: MoveRules,
    policy: DayPolicy,
    order: Ints,
    start: Ints | None = None,
) -> ClusterDay:
    """Play a day of demand.

    Args:
        scores: (a, a) score of each pair of applications, a share.
        demand: (t, a) bandwidth of each application in each interval, in units of MB/s.
        history: (h, a) bandwidth in the intervals before, in units of MB/s; the forecaster learns from it.
        power: power of each class of nodes.
        order: (n,) objects in the order of placing.
        start: (n,) node of each object at first; None to pack for the first interval, or for the peak of the
            history where data does not move.
    """
    peak = np.maximum(history.max(axis=0), 1e-12)
    whole = np.zeros(len(peak))
    np.add.at(whole, objects.app, objects.bandwidth)
    part = objects.bandwidth / np.maximum(whole[objects.app], 1e-12)
    slots = max(1, round(86_400 / moving.interval_s))
    forecaster = DemandForecaster(slots, len(peak), policy.quantile)
    for seen in history:
        if forecaster.started:
            forecaster.forecast()
        forecaster.observe(seen)
    first = demand[0] if policy.foresight else forecaster.forecast()
    if not policy.dynamic:
        first = demand[0] if policy.for_first else peak
    place = start
    if place is None:
        fresh = _at(objects, first, peak, part)
        place = consolidate(fresh, nodes, scores, rules, order=order).place
    days = _Record(len(demand), len(objects), len(nodes))
    rested = np.full(len(objects), -COOLDOWN)
    awake_before = np.bincount(place[place >= 0], minlength=len(nodes)) > 0
    for at, seen in enumerate(demand):
        used = np.bincount(place[place >= 0], minlength=len(nodes)) > 0
        days.begin(at, place, _at(objects, seen, peak, part), nodes)
        after = place
        if policy.dynamic and at + 1 < len(demand):
            forecaster.observe(seen)
            ahead = demand[at + 1] if policy.foresight else forecaster.forecast()
            expected = _at(objects, ahead, peak, part)
            if policy.free_moves:
                after = _anew(expected, nodes, scores, rules, order)
            else:
                plan = update_placement(
                    expected, nodes, scores, place, rules, moving, order=order,
                    resting=at - rested < COOLDOWN,
                )  # fmt: skip
                after = plan.place
                rested[after != place] = at
                days.copies(at, plan.moves, objects, nodes, moving.interval_s)
                days.late += len(plan.late)
        if not policy.free_moves:  # a node that takes data is on while it is copied
            used = used | (np.bincount(after[after >= 0], minlength=len(nodes)) > 0)
        place = after
        awake = np.ones(len(nodes), dtype=bool) if policy.awake_always else used
        days.awake[at] = awake
        days.energy += energy_wh(
            power, nodes.class_of, days.use[at] + days.copied[at], awake.astype(np.float64),
            (awake & ~awake_before).astype(np.int64), moving.interval_s,
        )  # fmt: skip
        awake_before = awake
    return days.result()


def _anew(objects: PackObjects, nodes: DiskNodes, scores: Floats, rules: PackRules, order: Ints) -> Ints:
    """Node of each object when all are packed afresh, by the fit that needs the fewest nodes."""
    found = [
        next_fit(objects, nodes, scores, rules, order),
        consolidate(objects, nodes, scores, replace(rules, fit="first"), order=order),
        consolidate(objects, nodes, scores, replace(rules, fit="best"), order=order),
    ]
    placed = [each for each in found if not each.unplaced]
    return min(placed or found, key=lambda each: each.nodes_used).place


def _at(objects: PackObjects, demand: Floats, peak: Floats, part: Floats) -> PackObjects:
    """Objects with the bandwidth of an interval."""
    return replace(
        objects,
        bandwidth=demand[objects.app] * part,
        load=(demand / peak)[objects.app] * part,
    )


class _Record:
    """Arrays of a day that are filled interval by interval."""

    def __init__(self, intervals: int, objects: int, nodes: int) -> None:
        self.place = np.zeros((intervals, objects), dtype=np.int64)
        self.awake = np.zeros((intervals, nodes), dtype=bool)
        self.use, self.copied = np.zeros((intervals, nodes)), np.zeros((intervals, nodes))
        self.moved = np.zeros(intervals)
        self.late, self.energy = 0, 0.0

    def begin(self, at: int, place: Ints, objects: PackObjects, nodes: DiskNodes) -> None:
        self.place[at] = place
        held = np.flatnonzero(place >= 0)
        load = np.bincount(place[held], weights=objects.bandwidth[held], minlength=len(nodes))
        self.use[at] = load / nodes.rated

    def copies(
        self, at: int, moves: tuple[DataMove, ...], objects: PackObjects, nodes: DiskNodes, interval_s: float
    ) -> None:
        for move in moves:
            size = float(objects.size[move.which])
            self.moved[at] += size
            for node in (move.source, move.target):
                self.copied[at, node] += size * 1000.0 / interval_s / nodes.rated[node]

    def result(self) -> ClusterDay:
        return ClusterDay(self.place, self.awake, self.use, self.moved, self.late, self.energy, self.copied)
