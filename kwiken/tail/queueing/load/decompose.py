"""Decomposition of a profile's latencies into work, waiting and residual: a model of them at other loads.

A profile holds latencies as callers saw them, at the load of its recording. Each call is decomposed:

    latency = wait in the replica's queue + work there + rest (network, storage, stalls: no server time)

The distribution of work has the measured mean and variation of busy times. Waits follow from work, replicas
and rate by simulation. The rest is the residual: the distribution that, added to work and wait, gives the
measured latencies. At the profile's own load the model therefore has the profile's percentiles, even if work
or waits are wrong. At other loads only the waits change.

The time that answers lay at the gateway is no part of these latencies. It is added after a call has raced its
copies, and is at any load what it was when recorded, because the gateway has no load model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile, StageProfile, complete_calls
from kwiken.tail.curves.copy_correlation import known_correlation
from kwiken.tail.queueing.load.notes import LatenciesNotExplained, LoadHasNoEffect, LoadNote, WaitsTooLong
from kwiken.tail.queueing.load.stage_model import (
    MIN_MISFIT_NOTED,
    LoadModel,
    StageModel,
    excess,
    levels,
    pilot,
    shuffle,
    unexplained,
)
from kwiken.tail.queueing.load.stalls import stalls_of
from kwiken.tail.queueing.simulator.service_times import Constant, Empirical, LogNormal, ServiceTimes
from kwiken.tail.queueing.simulator.station import Background, Cancel, Dispatch, Station

# Shares of the pilot calls simulated in each pass. Rests affect the choice of replicas and thus waits, and
# waits determine rests, so waits are simulated repeatedly; the first passes need not be exact.
PASS_SHARES = (0.25, 0.25, 1.0)
# Utilisation below which calls hardly ever wait, so that one pass suffices.
MIN_UTILISATION_FOR_WAITS = 0.02
MAX_LATENCY_ERROR = 0.001  # mean error of the latency distribution, relative to its mean, that ends a pass
MAX_CORRECTIONS = 20  # corrections of the distribution of rests in one pass
BODY_QUANTILE = 0.95  # latencies up to it give the spread of work, where busy times were not measured
MIN_RATE_PER_S, MAX_RATE_PER_S = 1e-6, 1e6  # request rates that a profile may stand for


@dataclass(frozen=True, kw_only=True)
class QueueSettings:
    """Facts on a service's replicas and queues that a profile lacks.

    Attributes:
        replicas: number of replicas by stage, where the profile lacks the number or has a wrong one.
        utilisation: share of the replicas' time in use, by stage. By default calls a second times mean busy
            time over replicas. What a given share exceeds that by is modelled as background work.
        rate_per_s: requests a second; by default the profile's requests over their time span. Needed where
            the profile is a sample of the requests.
        dispatch: replica choice; by default approximately the runtime's.
        cancel: treatment of the attempts that lose a race. By default attempts not begun are cancelled: work
            in progress on a processor cannot be stopped from outside.
    """

    replicas: Mapping[str, int] = field(default_factory=dict)
    utilisation: Mapping[str, float] = field(default_factory=dict)
    rate_per_s: float | None = None
    dispatch: Dispatch = "aged"
    cancel: Cancel = "queued"

    def check(self, profile: Profile) -> None:
        """Check the settings against a profile.

        Raises:
            InputError: for a stage that the profile lacks, a utilisation outside 0 to 1, or a rate out of
                bounds.
        """
        _check_names(profile, self.replicas, "replicas")
        _check_names(profile, self.utilisation, "utilisation")
        if self.rate_per_s is not None:
            _check_rate(self.rate_per_s)


def load_model(
    profile: Profile,
    settings: QueueSettings | None = None,
    *,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> LoadModel:
    """Decompose a profile into work, waits and rests.

    Args:
        profile: recorded latencies, busy times and replicas.
        settings: what is known of replicas and queues beside the profile; by default nothing more.
        seed: seed of all draws.
        copy_correlation: correlation of copies with their calls, as `simulate` takes it.

    Returns:
        The model. Load does not act on a stage with neither busy times nor a given utilisation; a note says
        so. Each replica is assumed to have a processor of its own and to serve one call at a time, first in,
        first out.

    Raises:
        InputError: for a stage that the profile lacks, an unknown number of replicas, a stage without idle
            time, or a profile without requests or without any stage on which load acts.
    """
    if not profile.requests:
        raise InputError("the profile has no requests", where="profile")
    queues = settings or QueueSettings()
    queues.check(profile)
    rate = _rate(profile) if queues.rate_per_s is None else queues.rate_per_s
    _check_rate(rate)
    stages: dict[str, StageModel] = {}
    for i, stage in enumerate(profile.stages):
        rng = np.random.default_rng([seed, i])
        raced = stage.without_lag()
        distribution = raced.distribution
        calls = complete_calls(raced, distribution, rng)
        count = queues.replicas.get(stage.name, stage.replicas)
        rho = (
            known_correlation(raced, distribution, copy_correlation)
            if stage.reissuable and len(distribution)
            else 0.0
        )
        station = _station(raced, distribution, rate, count, queues.utilisation.get(stage.name))
        if station is None:
            model = _without_replicas(raced, calls, rate, rho)
        else:
            model = _decomposed(
                replace(station, dispatch=queues.dispatch, cancel=queues.cancel),
                calls,
                rate,
                rho,
                seed=seed,
            )
        stages[stage.name] = replace(model, lag_ms=stage.lag_ms)
    if all(model.station.replicas is None for model in stages.values()):
        raise InputError(
            "no stage has a measured busy time, so the effect of load is not known; give the `utilisation` "
            "of a stage's replicas, and their number as `replicas`, for one stage or more",
            where="queues",
        )
    stalls = stalls_of(profile, rate)
    return LoadModel(profile, rate, stages, tuple(_notes(profile, stages)), stalls=stalls)


def known_utilisation(profile: Profile, settings: QueueSettings) -> dict[str, float]:
    """Share of each stage's replicas' time in use at the profile's own load, where known.

    Args:
        profile: recorded calls, busy times and replicas.
        settings: what is known of replicas and queues beside the profile.

    Returns:
        Shares of the stages whose utilisation is given, or follows from busy time, replicas and rate.
    """
    span = float(np.ptp(profile.started_s)) if profile.requests > 1 else 0.0
    if settings.rate_per_s is None and not span > 0:
        return dict(settings.utilisation)
    rate = _rate(profile) if settings.rate_per_s is None else settings.rate_per_s
    found = {}
    for stage in profile.stages:
        count = settings.replicas.get(stage.name, stage.replicas)
        if count and stage.busy_ms:
            found[stage.name] = stage.busy_ms * rate * stage.calls_per_request / 1e3 / count
    return found | dict(settings.utilisation)


def _check_names(profile: Profile, given: Mapping[str, float], field: str) -> None:
    names = {stage.name for stage in profile.stages}
    for name, value in given.items():
        if name not in names:
            known = ", ".join(sorted(names)[:8])
            raise InputError(
                f"{field}: stage {name!r} is not in the profile; it has: {known}", where="queues"
            )
        if field == "utilisation" and not 0 <= value < 1:
            raise InputError(
                f"utilisation: stage {name!r}: must be from 0 to below 1, not {value}", where="queues"
            )


def _check_rate(rate_per_s: float) -> None:
    if not MIN_RATE_PER_S <= rate_per_s <= MAX_RATE_PER_S:
        raise InputError(
            f"rate_per_s must be from {MIN_RATE_PER_S:g} to {MAX_RATE_PER_S:g} requests a second, not "
            f"{rate_per_s:g}",
            where="queues",
        )


def _rate(profile: Profile) -> float:
    """Requests a second over the profile's own time span."""
    span = float(np.ptp(profile.started_s)) if profile.requests > 1 else 0.0
    if not span > 0:
        raise InputError(
            "the profile's requests span no time, so their rate is not known; give it as `rate_per_s`",
            where="queues",
        )
    return (profile.requests - 1) / span


def _station(
    stage: StageProfile,
    distribution: EmpiricalDistribution,
    rate: float,
    replicas: int | None,
    utilisation: float | None,
) -> Station | None:
    """The stage's replicas and work; None where load does not act on the stage."""
    calls_per_s = rate * stage.calls_per_request
    idle = not calls_per_s or not len(distribution) or (stage.own_time and not utilisation)
    if idle or not (stage.busy_ms or utilisation):
        return None
    if replicas is None:
        raise InputError(
            f"the number of replicas of stage {stage.name!r} is not known; give it as `replicas`",
            where="queues",
        )
    measured = (stage.busy_ms or 0.0) * calls_per_s / 1e3 / replicas
    if utilisation is None or not stage.busy_ms:
        busy, background = utilisation or measured, None
    elif utilisation > measured:
        busy, background = measured, utilisation - measured
    else:
        busy, background = utilisation, None
    mean_ms, work_ms = float(distribution.mass @ distribution.values), busy * replicas / calls_per_s * 1e3
    if not stage.busy_ms and work_ms > mean_ms:
        raise InputError(
            f"stage {stage.name!r}: {busy:.3g} of the time of {replicas} "
            f"replica{'s' if replicas > 1 else ''}, at {calls_per_s:.3g} calls a second, would be "
            f"{work_ms:.4g} ms of work a call, and calls take {mean_ms:.4g} ms in all; give its "
            "`replicas` and `utilisation` as they were, and the requests a second while it was recorded as "
            "`rate_per_s`",
            where="queues",
        )
    work = _work(stage, distribution, work_ms)
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
            f"{work_ms:.4g} ms of work a call: give its "
            "`replicas`, `utilisation` or the `rate_per_s` as they were"
        )
    return station


def _work(stage: StageProfile, distribution: EmpiricalDistribution, mean_ms: float) -> ServiceTimes:
    """Distribution of work: the variation of busy times if measured, else that of latencies up to p95."""
    if stage.busy_variation is not None:
        return LogNormal(mean_ms, stage.busy_variation)
    body = np.minimum(distribution.values, distribution.quantile(np.array([BODY_QUANTILE]))[0])
    mean = float(distribution.mass @ body)
    if not mean > 0:
        return Constant(mean_ms)
    return Empirical(EmpiricalDistribution(body * (mean_ms / mean), distribution.weights))


def _without_replicas(stage: StageProfile, calls: Floats, rate: float, rho: float) -> StageModel:
    latencies = calls[~np.isnan(calls)]
    rest: ServiceTimes = Empirical(EmpiricalDistribution.of(latencies)) if len(latencies) else Constant(0.0)
    station = Station(
        name=stage.name,
        after=stage.after,
        work=Constant(0.0),
        rest=rest,
        replicas=None,
        fanout=calls.shape[1],
        copy_correlation=rho if len(latencies) else 0.0,
    )
    return StageModel(station, 0.0, calls, calls, rate * stage.visit_share)


def _decomposed(station: Station, calls: Floats, rate: float, rho: float, *, seed: int) -> StageModel:
    """Decompose the calls of a stage into work, wait and rest."""
    distribution = EmpiricalDistribution.of(calls)
    called = ~np.isnan(calls)
    visits = float(rate * called.any(axis=1).mean())
    assert station.replicas is not None
    used = station.work.mean_ms * rate * float(called.sum()) / len(calls) / 1e3 / station.replicas
    model = StageModel(station, used, calls, calls, visits)
    rest, busy = _rests(model, distribution, seed)
    wanted = distribution.quantile(levels(len(rest)))
    rests = unexplained(calls, wanted, rest)
    got = np.sort(rest[shuffle(len(rest), seed)] + busy)
    background = station.background.utilisation if station.background is not None else 0.0
    return replace(
        model,
        station=replace(station, rest=Empirical(EmpiricalDistribution.of(rests)), copy_correlation=rho),
        utilisation=used + background,
        rest_ms=rests,
        misfit=float(np.abs(excess(got, wanted)).max()),
        excess_wait=max(0.0, float(excess(np.sort(busy), wanted).max())),
    )


def _rests(model: StageModel, distribution: EmpiricalDistribution, seed: int) -> tuple[Floats, Floats]:
    """Distribution of rests, corrected until work, wait and rest add up to the measured latencies.

    Args:
        distribution: distribution of the stage's latencies, milliseconds.
        seed: seed of all draws.

    Returns:
        (pilot_calls,) ascending rests, and (pilot_calls,) work and wait of simulated calls with these rests
        in shuffled order; milliseconds.
    """
    rest = busy = np.zeros(1)
    for share in PASS_SHARES if model.utilisation >= MIN_UTILISATION_FOR_WAITS else PASS_SHARES[-1:]:
        size = int(share * model.pilot_calls)
        wanted, shuffled = distribution.quantile(levels(size)), shuffle(size, seed)
        rest = np.interp(levels(size), levels(len(rest)), rest)
        busy = pilot(model, rest[shuffled], factor=1.0, seed=seed) - rest[shuffled]
        for _ in range(MAX_CORRECTIONS):
            missing = wanted - np.sort(rest[shuffled] + busy)
            if float(np.abs(missing).mean()) < MAX_LATENCY_ERROR * float(wanted.mean()):
                break
            rest = np.sort(np.maximum(0.0, rest + missing))
    return rest, busy


def _notes(profile: Profile, stages: Mapping[str, StageModel]) -> list[LoadNote]:
    notes: list[LoadNote] = []
    unaffected = tuple(
        s.name for s in profile.stages if stages[s.name].station.replicas is None and not s.own_time
    )
    if unaffected:
        notes.append(LoadHasNoEffect(unaffected))
    excess_wait = {
        name: float(model.excess_wait)
        for name, model in stages.items()
        if model.excess_wait > MIN_MISFIT_NOTED
    }
    if excess_wait:
        notes.append(WaitsTooLong(excess_wait))
    off = {
        name: float(model.misfit)
        for name, model in stages.items()
        if model.misfit > MIN_MISFIT_NOTED and name not in excess_wait
    }
    if off:
        notes.append(LatenciesNotExplained(off))
    return notes
