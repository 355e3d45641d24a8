"""Pauses of replicas as a sizing needs them: times of the replicas, and no longer parts of recorded calls.

How many calls a pause catches depends on the number of replicas: fewer replicas pause less often together,
and leave the calls fewer others to go to. So recorded calls that met a pause lose it, and the replicas of
each size are paused in the simulation.

A short recording has few pauses of each stage, and none of some. So a stage has its own pauses, and beside
them `SHARED_PAUSES` of those of all stages. And as the next pause may be of a kind that was not recorded,
there is `UNSEEN_PAUSES` more than was (Laplace's rule of succession), as long as the longest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.model.profile import EmpiricalDistribution
from kwiken.tail.queueing.load import LoadModel
from kwiken.tail.queueing.simulator import Empirical, Pauses

SHARED_PAUSES: Final = 1.0  # pauses that all stages say of one: as rates that differ by their own size
UNSEEN_PAUSES: Final = 1.0  # pauses of all stages that count beside the recorded ones


def pauses_of(model: LoadModel) -> dict[str, Pauses]:
    """Pauses of each stage on whose replicas load acts; empty where none were recorded."""
    queued = {name: stage.station for name, stage in model.stages.items() if stage.station.replicas}
    seen = {name: stalls for name, stalls in model.stalls.items() if name in queued}
    if not seen:
        return {}
    span_ms = model.profile.requests / model.rate_per_s * 1e3
    known_ms = {
        name: station.replicas * span_ms
        for name, station in queued.items()
        if station.replicas and model.profile.stage(name).asked is not None
    }
    length_ms = np.concatenate([stalls.length_ms for stalls in seen.values()])
    number = np.concatenate([stalls.number for stalls in seen.values()])
    expected = number + UNSEEN_PAUSES * (np.arange(len(number)) == length_ms.argmax())
    mean_ms = sum(known_ms.values()) / expected.sum()  # time of a replica by which all stages have one pause
    found = {}
    for name, time_ms in known_ms.items():
        own = np.concatenate([stalls.number * (other == name) for other, stalls in seen.items()])
        weight = own + SHARED_PAUSES * expected / expected.sum()
        order = np.argsort(length_ms, kind="stable")
        lengths = EmpiricalDistribution(length_ms[order], weight[order] / weight.sum())
        found[name] = Pauses(weight.sum() / (time_ms + SHARED_PAUSES * mean_ms), lengths)
    return found


def without_pauses(model: LoadModel, pauses: Mapping[str, Pauses], *, seed: int) -> LoadModel:
    """The model with recorded calls as they would have been without the pauses of some stages.

    Args:
        pauses: stages whose calls lose their pauses; a call that met one gets the rest of another.
        seed: seed of these draws.
    """
    stages = dict(model.stages)
    for place, (name, stage) in enumerate(model.stages.items()):
        stalls = model.stalls.get(name)
        if name not in pauses or stalls is None:
            continue
        rng = np.random.default_rng([seed, place, 4])
        rest_ms = stage.rest_ms.copy()
        others = rest_ms[~stalls.caught & ~np.isnan(rest_ms)]
        rest_ms[stalls.caught] = rng.choice(others, np.count_nonzero(stalls.caught))
        rest = Empirical(EmpiricalDistribution.of(rest_ms))
        stages[name] = replace(stage, rest_ms=rest_ms, station=replace(stage.station, rest=rest))
    left = {name: stalls for name, stalls in model.stalls.items() if name not in pauses}
    return replace(model, stages=stages, stalls=left)
