"""Pauses of replicas for a sizing: times of the replicas, and not parts of recorded calls.

How many calls a pause catches depends on the number of replicas: fewer replicas pause less often together,
and leave the calls fewer others to go to. So recorded calls that met a pause lose it, and the replicas of
each size are paused in the simulation.

A short recording has few pauses of each stage, and none of some. So a stage has its own pauses, and beside
them `SHARED_PAUSES` of those of all stages. And as the next pause may be of a kind that was not recorded,
there is `UNSEEN_PAUSES` more than was (Laplace's rule of succession), as long as the longest.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.tail.queueing.load.stage_model import LoadModel
from kwiken.tail.queueing.load.stalls import stalls_of
from kwiken.tail.queueing.simulator.pauses import Pauses
from kwiken.tail.queueing.simulator.service_times import Empirical

MIN_LATER_CALLS: Final = 1  # calls that waited beside slow ones, needed to take slow calls for pauses
# Weight of the average stage in the rate of each stage, in pauses. With 1 the rates of stages are expected to
# differ by as much as their mean (a gamma prior of shape 1).
SHARED_PAUSES: Final = 1.0
UNSEEN_PAUSES: Final = 1.0  # pauses expected beside the recorded ones, of all stages together


@dataclass(frozen=True)
class StagePauses:
    """Pauses of a stage's replicas, with the number of pauses that they were learned from.

    Attributes:
        pauses: pauses as they are expected.
        evidence: number of pauses that their rate was learned from, those of other stages included.
    """

    pauses: Pauses
    evidence: float

    def resampled(self, rng: np.random.Generator) -> StagePauses:
        """Pauses as another recording of the same length might show them: a Bayesian bootstrap."""
        known = self.pauses.length
        weight = known.mass * rng.standard_exponential(len(known))
        rate = self.pauses.per_ms * float(rng.standard_gamma(self.evidence)) / self.evidence
        lengths = EmpiricalDistribution(known.values, weight / weight.sum())
        return StagePauses(Pauses(rate, lengths), self.evidence)


def observed_ms(model: LoadModel) -> dict[str, float]:
    """Time for which the replicas of each stage were watched for pauses, of all together, milliseconds."""
    span_ms = model.profile.requests / model.rate_per_s * 1e3
    return {
        name: stage.station.replicas * span_ms
        for name, stage in model.stages.items()
        if stage.station.replicas and model.profile.stage(name).asked is not None
    }


def recognised(model: LoadModel) -> LoadModel:
    """The model, with pauses from fewer waiting calls where the load model recognised none.

    To take a call that was slow by itself for a pause costs a sizing little, as it is still slow; to miss the
    pauses of a short recording costs the promise.
    """
    if model.stalls:
        return model
    stalls = stalls_of(model.profile, model.rate_per_s, min_later=MIN_LATER_CALLS)
    return replace(model, stalls=stalls)


def pauses_of(model: LoadModel) -> dict[str, StagePauses]:
    """Pauses of each stage on whose replicas load acts; empty where none were recorded."""
    watched = observed_ms(model)
    seen = {name: stalls for name, stalls in model.stalls.items() if name in watched}
    if not seen:
        return {}
    length_ms = np.concatenate([stalls.length_ms for stalls in seen.values()])
    number = np.concatenate([stalls.number for stalls in seen.values()])
    expected = number + UNSEEN_PAUSES * (np.arange(len(number)) == length_ms.argmax())
    mean_ms = sum(watched.values()) / expected.sum()  # time of a replica by which all stages have one pause
    order = np.argsort(length_ms, kind="stable")
    found = {}
    for name, time_ms in watched.items():
        own = np.concatenate([stalls.number * (other == name) for other, stalls in seen.items()])
        weight = own + SHARED_PAUSES * expected / expected.sum()
        lengths = EmpiricalDistribution(length_ms[order], weight[order] / weight.sum())
        found[name] = StagePauses(
            Pauses(weight.sum() / (time_ms + SHARED_PAUSES * mean_ms), lengths),
            float(np.count_nonzero(own)) + SHARED_PAUSES,
        )
    return found


def without_pauses(model: LoadModel, pauses: Collection[str], *, seed: int) -> LoadModel:
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
