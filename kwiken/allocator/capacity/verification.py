"""Simulation of a whole service at chosen sizes: every stage's queues fed by its parents' answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.allocator.capacity.pauses import StagePauses
from kwiken.allocator.capacity.recorded_requests import recorded_arrivals, resampled_requests
from kwiken.allocator.capacity.supply import Sizes
from kwiken.allocator.capacity.trials import WARM_UP, StageTrials
from kwiken.base.arrays import Floats, Ints
from kwiken.model.latency import ladder
from kwiken.model.plan.plan import Ladder
from kwiken.tail.queueing.simulator.network import simulate_queues
from kwiken.tail.queueing.simulator.race import UnstableStageError
from kwiken.tail.simulation.expectation import BlockBootstrap

MAX_VERIFIED_CALLS: Final = 250_000  # calls of all stages in one simulation
RESAMPLES, MAX_RESAMPLED_REQUESTS = 25, 8000  # recordings that an interval comes from, and their requests
MIN_VERIFIED_REQUESTS, MAX_VERIFIED_REQUESTS = 5000, 40_000
P99: Final = 3  # position of p99 in a ladder
CHECK_DRAWS: Final = 2  # stream of a seed from which the requests of a check are drawn; trials have their own


@dataclass(frozen=True)
class Verified:
    """Latencies of whole requests at chosen sizes, in the queueing simulator.

    Attributes:
        latency_ms: (n,) latencies of whole requests, in order of arrival, milliseconds.
        copies: by stage: number of copies per call.
        utilisation: by stage: share of the replicas' time in use, without pauses; 0 where load does not act.
    """

    latency_ms: Floats
    copies: dict[str, float]
    utilisation: dict[str, float]

    @property
    def ladder(self) -> Ladder:
        """Percentiles of the latencies."""
        return ladder(self.latency_ms)

    @property
    def p99_ms(self) -> float:
        """p99 of whole requests, milliseconds."""
        return float(np.percentile(self.latency_ms, 99))

    def percentiles(self, *, seed: int = 0) -> Floats:
        """(resamples, 5): the ladder in resamples of blocks of time, milliseconds."""
        return BlockBootstrap(len(self.latency_ms), seed=seed).percentiles(self.latency_ms)

    def probability(self, target_ms: float, *, seed: int = 0) -> float:
        """Share of the resamples in which p99 is at most a target.

        Args:
            target_ms: p99 to reach, milliseconds.
        """
        return float((self.percentiles(seed=seed)[:, P99] <= target_ms).mean())


@dataclass(frozen=True)
class CheckedRecording:
    """Recorded requests and pauses that a check draws from.

    Attributes:
        requests: (k,) indices of recorded requests, at least one.
        pauses: pauses of the replicas by stage.
    """

    requests: Ints
    pauses: Mapping[str, StagePauses]


def verify(
    trials: StageTrials,
    sizes: Sizes,
    *,
    seed: int,
    copies: bool = True,
    recording: CheckedRecording | None = None,
    most: int = MAX_VERIFIED_REQUESTS,
) -> Verified | None:
    """Simulate a service at chosen sizes, on other requests than those of the trials.

    Args:
        trials: trials of its stages, which know the policies of the sizes.
        sizes: size of each stage.
        seed: seed of all draws; take another one than the trials'.
        recording: what is drawn from; None for the recorded requests that the trials do not draw from.
        most: largest number of requests, 1 or more.

    Returns:
        The outcome; None where copies overload a stage.
    """
    model, rate = trials.model, trials.rate_per_s
    drawn = CheckedRecording(trials.halves.checked, trials.pauses) if recording is None else recording
    enough = int(MAX_VERIFIED_CALLS / model.calls_per_request)
    requests = min(most, max(MIN_VERIFIED_REQUESTS, enough))
    warm_up = int(WARM_UP * requests)
    factor, count = rate / model.rate_per_s, requests + warm_up
    arriving, choosing, *working = np.random.default_rng([seed, CHECK_DRAWS]).spawn(2 + len(model.stages))
    arrivals = recorded_arrivals(model.profile, rate, count, arriving)
    rows = model.rows(factor, count, choosing, drawn.requests)
    stations, given = [], {}
    for place, (name, rng) in enumerate(zip(trials.names, working, strict=True)):
        size, stage = sizes[place], model.stages[name]
        station = trials.station(place, size if copies else replace(size, level=0))
        if name in drawn.pauses:
            station = replace(station, pauses=drawn.pauses[name].pauses)
        stations.append(replace(station, after=stage.station.after))
        primaries = stage.primaries(rows, rng, model.stalls.get(name), factor)
        given[name] = replace(primaries, work_ms=primaries.work_ms / trials.speed(place, size))
    try:
        found = simulate_queues(
            stations, arrivals, rng=np.random.default_rng([seed, 3]), given=given, warm_up=warm_up
        )
    except UnstableStageError:
        return None
    return Verified(
        found.latency_ms,
        {name: stage.fraction for name, stage in found.stages.items()},
        {
            name: float(stage.utilisation.mean()) if len(stage.utilisation) else 0.0
            for name, stage in found.stages.items()
        },
    )


def resampled_p99(trials: StageTrials, sizes: Sizes, *, seed: int) -> Floats:
    """(resamples,): p99 of chosen sizes by other recordings of the same length, milliseconds.

    Blocks of time of the recording are redrawn, and so are the number and the lengths of its pauses. So the
    spread says how sure a p99 from so many requests is; infinite where copies overload a stage.

    Args:
        trials: trials of the stages, which know the policies of the sizes.
        sizes: size of each stage.
        seed: seed of all draws; take another one than the trials'.
    """
    found = []
    for number, rng in enumerate(np.random.default_rng([seed, 5]).spawn(RESAMPLES)):
        recording = CheckedRecording(
            resampled_requests(trials.model.profile, rng),
            {name: pauses.resampled(rng) for name, pauses in trials.pauses.items()},
        )
        verified = verify(
            trials, sizes, seed=seed + 1 + number, recording=recording, most=MAX_RESAMPLED_REQUESTS
        )
        found.append(np.inf if verified is None else verified.p99_ms)
    return np.array(found)
