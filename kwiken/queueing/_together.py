"""A profile's stages on one machine: what of its latencies is waiting for a processor.

Each stage was taken apart by itself (`_apart`), as if it had its processors alone. Here all run on one
machine, at the profile's own load. What latencies then have too much is taken from the rests, law for law,
until every stage has the latencies that were measured. So at the profile's own load the model has the
profile's percentiles as before, and at another the time that calls wait for processors changes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from kwiken._dag import end_to_end
from kwiken._errors import InputError
from kwiken._pool import Pool
from kwiken._profile import Floats
from kwiken.queueing._front import fronts, share_of_time
from kwiken.queueing._law import Empirical
from kwiken.queueing._model import (
    LEAST_MS,
    MISFIT,
    LoadModel,
    Shared,
    StageModel,
    excess,
    levels,
    unexplained,
)
from kwiken.queueing._network import QueueSimulation
from kwiken.queueing._sisters import alike_as_sisters, longest_alike_ms
from kwiken.queueing._trial import Trial

REQUESTS: Final = 6000  # that laws are learned from: a stage with one call has sixty beyond p99;
CALLS: Final = 150_000  # fewer where they have more calls than this,
FEWEST: Final = 500  # but so many in any case
LEVELS: Final = levels(4096)
ROUNDS: Final = 5  # of putting laws right; they rest after three or four


def on_one_machine(
    model: LoadModel, processors: int, use: float | None, idle_use: float = 0.0, *, seed: int
) -> LoadModel:
    """Put a profile's stages on one machine, and the process in front where its work is known.

    The front's work is the busy time of the profile's own time: some of it is in each request's own time,
    the rest is shared by all calls alike. A call has the work that was measured of it, so what makes a
    request costly everywhere still does.

    Args:
        model: each stage by itself.
        processors: of the machine.
        use: share of all processors' time that was used at the profile's load. What calls', the front's and
            idle work leave of it is taken to come with the requests, each one's when it is over. None for no
            such work.
        idle_use: share that is used without any request, and besides at any load.
        seed: of all draws.

    Raises:
        InputError: for what no machine has, or one that would be busy all the time.
    """
    _check_use(use, idle_use)
    calls = {name: stage.calls_per_request for name, stage in model.stages.items()}
    in_front = fronts(model, calls)
    front = sum(in_front[name] * calls[name] for name in in_front)
    of_time = share_of_time(model.profile)
    work = sum(_work_ms(stage, calls[name], model.rate_per_s) for name, stage in model.stages.items())
    work += front * (1.0 - of_time)
    others = idle_use * processors + front * of_time * model.rate_per_s / 1e3
    left = 0.0 if use is None else use * processors - others - work * model.rate_per_s / 1e3
    worked = {stage.name: stage.worked_ms for stage in model.profile.stages}
    stages = {
        name: replace(
            stage,
            station=replace(stage.station, front_ms=in_front[name] * (1.0 - of_time)),
            work_ms=_own_work(worked.get(name), stage),
        )
        for name, stage in model.stages.items()
    }
    shared = Shared(processors, work, max(0.0, left) * 1e3 / model.rate_per_s, others)
    together = replace(model, stages=stages, shared=shared)
    together.check(1.0)
    found, off = _put_right(together, seed)
    found = replace(found, stages=_with_copies_alike(found))
    return replace(found, notes=(*model.notes, *_notes(shared, model.rate_per_s, left, off)))


def _check_use(use: float | None, idle_use: float) -> None:
    if use is not None and not 0 < use < 1:
        raise InputError(f"must be a share above 0 and below 1, not {use}", where="processor_use")
    if not 0 <= idle_use < (1 if use is None else use):
        most = "1" if use is None else f"processor_use ({use:g})"
        raise InputError(f"must be a share from 0 to below {most}, not {idle_use}", where="idle_use")


def _own_work(worked_ms: Floats | None, stage: StageModel) -> Floats | None:
    """(n, width): what was measured of each call, with the mean that the stage's work has."""
    if worked_ms is None or stage.station.replicas is None:
        return None
    there = np.where(np.isnan(stage.calls_ms), np.nan, worked_ms)
    known = there[~np.isnan(there)]
    mean_ms = float(known.mean()) if len(known) else 0.0
    return np.asarray(there * (stage.station.work.mean_ms / mean_ms)) if mean_ms > LEAST_MS else None


def _with_copies_alike(model: LoadModel) -> dict[str, StageModel]:
    """Copies hang together with their calls: they compute the same, and all is slow at a time.

    Work here is processors' time, which comes with the request (in recorded races of the demo the correlation
    of both works was .96 at its most reissued stage). The clock says how waiting hangs together; the rest is
    as alike as sisters' is.
    """
    alike = alike_as_sisters(model.stages, model.stalls)
    return {
        name: replace(
            stage,
            station=replace(
                stage.station,
                repeats=True,
                alike=alike[name] if isinstance(stage.station.rest, Empirical) else 0.0,
                alike_to_ms=longest_alike_ms(stage, model.stalls.get(name)),
            ),
        )
        for name, stage in model.stages.items()
    }


def _work_ms(stage: StageModel, calls: float, rate_per_s: float) -> float:
    """A request's work on the stage's replicas, their other work included."""
    station = stage.station
    if station.replicas is None:
        return 0.0
    other = station.background.utilisation if station.background is not None else 0.0
    return calls * station.work.mean_ms + other * station.replicas * 1e3 / rate_per_s


def _put_right(model: LoadModel, seed: int) -> tuple[LoadModel, dict[str, float]]:
    """Correct all laws of rests together; by stage the relative error of a percentile that is left."""
    made = {name: stage for name, stage in model.stages.items() if len(Pool.of(stage.calls_ms))}
    wanted = {name: _law(stage.calls_ms) for name, stage in made.items()}
    beyond = {name: _beyond_work_ms(stage) for name, stage in made.items()}
    laws = {name: _law(times_ms) for name, times_ms in beyond.items()}
    rests = {name: _law(stage.rest_ms) for name, stage in made.items()}
    requests = int(min(REQUESTS, max(FEWEST, CALLS / model.calls_per_request)))
    machine = None
    for _ in range(ROUNDS):
        found, machine = Trial(model, 1.0, requests, seed).run({}, machine)
        got = {name: _law(_seen_ms(model, found, name)) for name in made}
        for name in made:
            rests[name] = np.sort(np.maximum(0.0, rests[name] + wanted[name] - got[name]))
        fitted = {
            name: _with_rests(stage, beyond[name], laws[name], rests[name]) for name, stage in made.items()
        }
        model = replace(model, stages={**model.stages, **fitted})
    return model, {name: float(np.abs(excess(got[name], wanted[name])).max()) for name in made}


def _seen_ms(model: LoadModel, found: QueueSimulation, name: str) -> Floats:
    """A stage's latencies as a profile has them: the own time is what the longest path of calls leaves."""
    if name not in {stage.name for stage in model.profile.stages if stage.own_time}:
        return found.stages[name].call_ms
    stations = [stage.station for stage in model.stages.values()]
    slowest = {other: stage.slowest_ms for other, stage in found.stages.items()}
    path_ms = end_to_end(stations, {**slowest, name: np.zeros(len(found.latency_ms))})
    return np.asarray(np.maximum(0.0, found.latency_ms - path_ms))


def _law(times_ms: Floats) -> Floats:
    return Pool.of(times_ms).quantile(LEVELS)


def _beyond_work_ms(stage: StageModel) -> Floats:
    """(n, width): by which rests go to calls, rank for rank: their latencies less the work that is their own.

    By the whole latency a heavy call would be long twice, by its work and by a rest of such calls.
    """
    if stage.work_ms is None:
        return stage.calls_ms
    work_ms = np.where(np.isnan(stage.work_ms), stage.station.work.mean_ms, stage.work_ms)
    return np.asarray(np.maximum(0.0, stage.calls_ms - work_ms))


def _with_rests(stage: StageModel, beyond_ms: Floats, law: Floats, rests: Floats) -> StageModel:
    rest = unexplained(beyond_ms, law, rests)
    return replace(stage, station=replace(stage.station, rest=Empirical(Pool.of(rest))), rest_ms=rest)


def _notes(shared: Shared, rate_per_s: float, left: float, off: Mapping[str, float]) -> list[str]:
    notes = []
    if left < 0:
        notes.append(
            "the replicas', the gateway's and idle work alone is more than the given use of the processors: "
            f"{shared.busy_at(rate_per_s):.0%} of {shared.processors}"
        )
    far = [f"{name} {error:.0%}" for name, error in off.items() if error > MISFIT]
    if far:
        notes.append(
            "on shared processors, work, wait and a rest do not quite add up to the latencies (error of a "
            f"percentile): {', '.join(far)}"
        )
    return notes
