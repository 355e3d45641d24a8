"""Schemes that manage the cluster for a day, from none to perfect foresight, and what they give."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.storage.consolidation.moves import MoveRules
from kwiken.storage.consolidation.packing import PackObjects, PackRules, placing_order
from papers.bloc.cluster import (
    STEP_S,
    TARGET_MS,
    StorageWorld,
    objects_of_world,
    quality,
)
from papers.bloc.day import ClusterDay, DayPolicy, play_day

SCHEMES: Final = ("Capacity", "B-max", "B-dyn", "B-fine", "BLOC", "Oracle")
INTERVAL_S: Final = 1800.0
MORNING, EVENING = 8, 20  # hours between which it is day


def run_scheme(
    world: StorageWorld,
    name: str,
    *,
    interval_s: float = INTERVAL_S,
    target_ms: float = TARGET_MS,
    quantile: float | None = None,
    moving: MoveRules | None = None,
) -> dict[str, float]:
    """Energy and quality of a day under one scheme, beside those of the cluster as it was.

    Args:
        interval_s: length of an interval, seconds.
        target_ms: latency that limits are set for, milliseconds.
        quantile: share of intervals that forecasts are to cover; None for the published rule.
        moving: rules of moving; those of the source by default.
    """
    objects = objects_of_world(world, split=name in {"B-fine", "BLOC", "Oracle"}, target_ms=target_ms)
    steps = max(1, round(interval_s / STEP_S))
    demand, history = _means(world.demand, steps), _means(world.history, steps)
    order, bounded = placing_order(objects, world.scores), name != "Capacity"
    limit = objects.bandwidth_limit if bounded else np.full_like(objects.bandwidth_limit, np.inf)
    day = play_day(
        replace(objects, bandwidth_limit=limit), world.nodes, world.scores, demand, history,
        list(world.power), rules=PackRules(most_interference=0.10 if bounded else np.inf, apart=False),
        moving=replace(moving or MoveRules(), interval_s=interval_s),
        policy=DayPolicy(
            dynamic=name in {"B-dyn", "BLOC", "Oracle"},
            for_first=name == "B-fine",
            foresight=name == "Oracle",
            free_moves=name == "Oracle",
            quantile=quantile,
        ),
        order=order,
    )  # fmt: skip
    return _figures(world, objects, day, steps)


def as_it_was(world: StorageWorld) -> tuple[ClusterDay, PackObjects]:
    """The day without consolidation: each instance alone on a node that is never off."""
    objects = objects_of_world(world, split=False)
    steps = round(INTERVAL_S / STEP_S)
    day = play_day(
        objects, world.nodes, world.scores, _means(world.demand, steps), _means(world.history, steps),
        list(world.power), rules=PackRules(), moving=MoveRules(),
        policy=DayPolicy(dynamic=False, awake_always=True),
        order=np.arange(len(objects)), start=world.home,
    )  # fmt: skip
    return day, objects


def _means(demand: Floats, steps: int) -> Floats:
    means: Floats = demand.reshape(len(demand) // steps, steps, -1).mean(axis=1)
    return means


def _figures(world: StorageWorld, objects: PackObjects, day: ClusterDay, steps: int) -> dict[str, float]:
    alone, apart = as_it_was(world)
    before = quality(world, apart, _repeated(alone.place, 3), np.zeros((len(world.demand), len(world.nodes))))
    after = quality(world, objects, _repeated(day.place, steps), np.repeat(day.copied, steps, axis=0))
    ratio = after / before
    awake = day.awake.mean(axis=0)
    used = day.use[day.awake]
    hours = np.arange(len(day.awake)) * 24.0 / len(day.awake)
    night = (hours < MORNING) | (hours >= EVENING)
    shares = day.copied[2:].sum(axis=1) / np.maximum(day.awake[2:].sum(axis=1), 1)
    by_app = np.array([ratio[:, world.kind == kind].mean() for kind in range(int(world.kind.max()) + 1)])
    found = {
        "saving": alone.energy_wh / day.energy_wh,
        "throughput": 100 * float(ratio.mean()),
        "active time": 100 * (float(awake.mean()) - 1.0),
        "use": 100 * float(used.mean()),
        "use before": 100 * float(alone.use.mean()),
        "use night": 100 * float(_use_at(day, night)),
        "use day": 100 * float(_use_at(day, ~night)),
        "use night before": 100 * float(alone.use[_in_halves(alone, night, day)].mean()),
        "use day before": 100 * float(alone.use[_in_halves(alone, ~night, day)].mean()),
        "migration mean": 100 * float(shares.mean()),
        "migration most": 100 * float(shares.max()),
        "late": float(day.late),
        "peak hour": float(hours[2:][np.argmax(day.moved_gb[2:])]),
    }
    found |= {f"loss {kind}": 100 * (1 - float(share)) for kind, share in enumerate(by_app)}
    found |= _savings(world, objects, day, alone)
    return found


def _use_at(day: ClusterDay, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    return float(day.use[chosen][day.awake[chosen]].mean())


def _in_halves(
    alone: ClusterDay, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]], day: ClusterDay
) -> Ints:
    """Intervals of the day as it was that lie at the same hours."""
    at = np.arange(len(alone.use)) * len(day.use) // len(alone.use)
    return np.flatnonzero(chosen[at])


def _repeated(place: Ints, steps: int) -> Ints:
    return np.repeat(place, steps, axis=0)


def _savings(
    world: StorageWorld, objects: PackObjects, day: ClusterDay, alone: ClusterDay
) -> dict[str, float]:
    """Energy of each application before over after, each node's energy shared by bandwidth."""
    part = np.bincount(objects.app)[objects.app]
    after, before = np.zeros(len(world.kind)), np.zeros(len(world.kind))
    steps = len(world.demand) // len(day.place)
    idle = np.array([each.idle_w for each in world.power])[world.nodes.class_of]
    for at, place in enumerate(day.place):
        load = world.demand[at * steps][objects.app] / part
        total = np.bincount(place, weights=load, minlength=len(world.nodes))
        after += np.bincount(
            objects.app, weights=idle[place] * load / np.maximum(total[place], 1e-12), minlength=len(after)
        )
        before += idle[world.home]
    del alone
    return {
        f"saving {kind}": float(before[world.kind == kind].sum() / after[world.kind == kind].sum())
        for kind in range(int(world.kind.max()) + 1)
    }
