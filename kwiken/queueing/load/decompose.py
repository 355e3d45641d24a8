"""What of a profile's latencies is work, what is waiting and what is neither: a model that load can act on.

A profile has latencies as callers saw them, at the load of its day. Here each call is taken apart:

    latency = wait in the replica's queue + work there + rest (network, storage, stalls: keeps nobody busy)

The law of work has the measured mean and variation of busy times. Waits follow from it, the replicas and
the rate by simulation. The rest is what then remains: the law which, added to work and wait, gives the
latencies measured. So at the profile's own load the model has the profile's own percentiles, whatever is
wrong with it, and at others the waits change and nothing else does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from kwiken.arrays import Floats
from kwiken.curves import known_correlation
from kwiken.errors import InputError
from kwiken.profile import Pool, Profile, StageProfile, complete_calls, pool
from kwiken.queueing.load.stage_model import (
    MISFIT,
    LoadModel,
    StageModel,
    excess,
    levels,
    pilot,
    shuffle,
    unexplained,
)
from kwiken.queueing.load.stalls import stalls_of
from kwiken.queueing.simulator import (
    Background,
    Cancel,
    Constant,
    Dispatch,
    Empirical,
    LogNormal,
    ServiceTimes,
    Station,
)

# Passes of simulating waits, since rests decide how calls find replicas, and waits what rests are: each with
# a share of the calls, as the first ones only have to come near.
PASSES = (0.25, 0.25, 1.0)
IDLE = 0.02  # share of the replicas' time below which nobody waits, so one pass will do
CLOSE = 0.001  # mean error of the law of latencies, relative to its mean, that needs no further round
ROUNDS = 20  # of correcting the law of rests, in each
BODY = 0.95  # share of the latencies whose spread is taken for that of the work where none was measured
SLOWEST, FASTEST = 1e-6, 1e6  # requests a second that a profile may stand for


def load_model(
    profile: Profile,
    *,
    replicas: Mapping[str, int] | None = None,
    utilisation: Mapping[str, float] | None = None,
    rate_per_s: float | None = None,
    dispatch: Dispatch = "aged",
    cancel: Cancel = "queued",
    seed: int = 0,
    copy_correlation: float | None = None,
) -> LoadModel:
    """Take a profile apart into work, waits and the rest.

    Args:
        profile: what was learned.
        replicas: by stage, for those of which the profile does not know how many took calls, or knows
            wrongly.
        utilisation: by stage: share of its replicas' time that was used. By default calls a second times
            mean busy time over replicas. Above that, the difference is taken for other work on them.
        rate_per_s: requests a second; by default the profile's requests over the time that they span. To be
            given where the profile is a sample of the requests.
        dispatch: how calls find replicas; by default about as the runtime's do.
        cancel: what becomes of a race's losers. By default those not begun are taken out: work that a
            processor has begun cannot be stopped from outside.
        seed: of all draws.
        copy_correlation: as `simulate` takes it.

    Returns:
        The model. Load does not act on a stage with neither busy times nor a given utilisation; a note
        says so. Replicas are taken to have processors of their own, and to serve one call at a time, in the
        order of arrival.

    Raises:
        InputError: for a stage that the profile lacks, one whose replicas nobody knows, one that would be
            busy all the time, or a profile without requests or that load acts on nowhere.
    """
    if not profile.requests:
        raise InputError("the profile has no requests", where="profile")
    given, known = replicas or {}, utilisation or {}
    _check_names(profile, given, "replicas")
    _check_names(profile, known, "utilisation")
    rate = _rate(profile) if rate_per_s is None else rate_per_s
    if not SLOWEST <= rate <= FASTEST:
        raise InputError(
            f"must be from {SLOWEST:g} to {FASTEST:g} requests a second, not {rate:g}", where="rate"
        )
    stages: dict[str, StageModel] = {}
    for i, stage in enumerate(profile.stages):
        rng = np.random.default_rng([seed, i])
        law = pool(stage)
        calls = complete_calls(stage, law, rng)
        count = given.get(stage.name, stage.replicas)
        alike = known_correlation(stage, law, copy_correlation) if stage.reissuable and len(law) else 0.0
        station = _station(stage, law, rate, count, known.get(stage.name))
        if station is None:
            stages[stage.name] = _unloaded(stage, calls, rate, alike)
        else:
            stages[stage.name] = _taken_apart(
                replace(station, dispatch=dispatch, cancel=cancel), calls, rate, alike, seed=seed
            )
    if all(model.station.replicas is None for model in stages.values()):
        raise InputError(
            "no stage has a measured busy time, so nobody knows how load acts on it; give it for one",
            where="utilisation",
        )
    stalls = stalls_of(profile, rate)
    return LoadModel(profile, rate, stages, tuple(_notes(profile, stages)), stalls=stalls)


def measured_utilisation(
    profile: Profile, *, replicas: Mapping[str, int] | None = None, rate_per_s: float | None = None
) -> dict[str, float]:
    """Share of each stage's replicas' time that its calls used, at the profile's own load.

    Args:
        profile: what was learned.
        replicas: by stage, where the profile does not know.
        rate_per_s: requests a second; by default as `load_model` takes it.

    Returns:
        Of the stages whose busy time and replicas are known; none where the rate is not.
    """
    span = float(np.ptp(profile.started_s)) if profile.requests > 1 else 0.0
    if rate_per_s is None and not span > 0:
        return {}
    rate = _rate(profile) if rate_per_s is None else rate_per_s
    found = {}
    for stage in profile.stages:
        count = (replicas or {}).get(stage.name, stage.replicas)
        if count and stage.busy_ms:
            found[stage.name] = stage.busy_ms * rate * stage.calls_per_request / 1e3 / count
    return found


def _check_names(profile: Profile, given: Mapping[str, float], where: str) -> None:
    names = {stage.name for stage in profile.stages}
    for name, value in given.items():
        if name not in names:
            known = ", ".join(sorted(names)[:8])
            raise InputError(f"stage {name!r} is not in the profile; it has: {known}", where=where)
        if where == "utilisation" and not 0 <= value < 1:
            raise InputError(f"stage {name!r}: must be from 0 to below 1, not {value}", where=where)


def _rate(profile: Profile) -> float:
    """Requests a second of the profile's own time."""
    span = float(np.ptp(profile.started_s)) if profile.requests > 1 else 0.0
    if not span > 0:
        raise InputError(
            "the profile's requests span no time, so their rate is not known; give it", where="rate"
        )
    return (profile.requests - 1) / span


def _station(
    stage: StageProfile, law: Pool, rate: float, replicas: int | None, utilisation: float | None
) -> Station | None:
    """The stage's replicas and work; None where load does not act on it."""
    calls_per_s = rate * stage.calls_per_request
    idle = not calls_per_s or not len(law) or (stage.own_time and not utilisation)
    if idle or not (stage.busy_ms or utilisation):
        return None
    if replicas is None:
        raise InputError(
            f"nobody knows how many stage {stage.name!r} has; give their number", where="replicas"
        )
    measured = (stage.busy_ms or 0.0) * calls_per_s / 1e3 / replicas
    if utilisation is None or not stage.busy_ms:
        busy, background = utilisation or measured, None
    elif utilisation > measured:
        busy, background = measured, utilisation - measured
    else:
        busy, background = utilisation, None
    work = _work(stage, law, busy * replicas / calls_per_s * 1e3)
    station = Station(
        name=stage.name,
        after=stage.after,
        work=work,
        replicas=replicas,
        fanout=stage.calls_ms.shape[1],
        background=Background(utilisation=background, work=work) if background else None,
    )
    if busy >= 1:
        raise InputError(
            f"stage {stage.name!r} would have been busy {busy:.0%} of the time with {replicas} "
            f"replica{'s' if replicas > 1 else ''}, {calls_per_s:.4g} calls a second and "
            f"{busy * replicas / calls_per_s * 1e3:.4g} ms of work a call: give its "
            "`replicas`, `utilisation` or the `rate` as they were"
        )
    return station


def _work(stage: StageProfile, law: Pool, mean_ms: float) -> ServiceTimes:
    """The law of work: as varied as busy times were; else as latencies without their slowest."""
    if stage.busy_variation is not None:
        return LogNormal(mean_ms, stage.busy_variation)
    body = np.minimum(law.values, law.quantile(np.array([BODY]))[0])
    mean = float(law.mass @ body)
    if not mean > 0:
        return Constant(mean_ms)
    return Empirical(Pool(body * (mean_ms / mean), law.weights))


def _unloaded(stage: StageProfile, calls: Floats, rate: float, alike: float) -> StageModel:
    there = calls[~np.isnan(calls)]
    rest: ServiceTimes = Empirical(Pool.of(there)) if len(there) else Constant(0.0)
    station = Station(
        name=stage.name,
        after=stage.after,
        work=Constant(0.0),
        rest=rest,
        replicas=None,
        fanout=calls.shape[1],
        alike=alike if len(there) else 0.0,
    )
    return StageModel(station, 0.0, calls, calls, rate * stage.visit_share)


def _taken_apart(station: Station, calls: Floats, rate: float, alike: float, *, seed: int) -> StageModel:
    """Take a stage's calls apart into work, wait and rest."""
    law = Pool.of(calls)
    there = ~np.isnan(calls)
    visits = float(rate * there.any(axis=1).mean())
    assert station.replicas is not None
    used = station.work.mean_ms * rate * float(there.sum()) / len(calls) / 1e3 / station.replicas
    model = StageModel(station, used, calls, calls, visits)
    rest, busy = _rests(model, law, seed)
    wanted = law.quantile(levels(len(rest)))
    rests = unexplained(calls, wanted, rest)
    got = np.sort(rest[shuffle(len(rest), seed)] + busy)
    background = station.background.utilisation if station.background is not None else 0.0
    return replace(
        model,
        station=replace(station, rest=Empirical(Pool.of(rests)), alike=alike),
        utilisation=used + background,
        rest_ms=rests,
        misfit=float(np.abs(excess(got, wanted)).max()),
        crowded=max(0.0, float(excess(np.sort(busy), wanted).max())),
    )


def _rests(model: StageModel, law: Pool, seed: int) -> tuple[Floats, Floats]:
    """The law of rests: put right what work, wait and rest together have too much or too little.

    Args:
        model: of the stage, as far as it is known.
        law: of latencies.
        seed: of all draws.

    Returns:
        (pilot_calls,) ascending: the law of rests, and (pilot_calls,): work and wait of the calls with these
        rests, shuffled.
    """
    rest = busy = np.zeros(1)
    for share in PASSES if model.utilisation >= IDLE else PASSES[-1:]:
        size = int(share * model.pilot_calls)
        wanted, shuffled = law.quantile(levels(size)), shuffle(size, seed)
        rest = np.interp(levels(size), levels(len(rest)), rest)
        busy = pilot(model, rest[shuffled], factor=1.0, seed=seed) - rest[shuffled]
        for _ in range(ROUNDS):
            missing = wanted - np.sort(rest[shuffled] + busy)
            if float(np.abs(missing).mean()) < CLOSE * float(wanted.mean()):
                break
            rest = np.sort(np.maximum(0.0, rest + missing))
    return rest, busy


def _notes(profile: Profile, stages: Mapping[str, StageModel]) -> list[str]:
    notes = []
    blind = [s.name for s in profile.stages if stages[s.name].station.replicas is None and not s.own_time]
    if blind:
        notes.append(f"load does not act on these, whose busy time is not known: {', '.join(blind)}")
    crowded = [f"{name} {model.crowded:.0%}" for name, model in stages.items() if model.crowded > MISFIT]
    if crowded:
        notes.append(
            "more waiting than latencies have room for, so replicas, rate or utilisation may be wrong "
            f"(excess over a percentile): {', '.join(crowded)}"
        )
    off = [
        f"{name} {model.misfit:.0%}"
        for name, model in stages.items()
        if model.misfit > MISFIT and model.crowded <= MISFIT
    ]
    if off:
        notes.append(
            "work, wait and a rest do not quite add up to the latencies; a longer profile may help "
            f"(error of a percentile): {', '.join(off)}"
        )
    return notes
