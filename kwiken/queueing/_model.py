"""What of a profile's latencies is work, what is waiting and what is neither: a model that load can act on.

A profile has latencies as callers saw them, at the load of its day. Here each call is taken apart:

    latency = wait in the replica's queue + work there + rest (network, storage, stalls: keeps nobody busy)

The law of work has the measured mean and variation of busy times. Waits follow from it, the replicas and
the rate by simulation. The rest is what then remains: the law which, added to work and wait, gives the
latencies measured. So at the profile's own load the model has the profile's own percentiles, whatever is
wrong with it, and at others the waits change and nothing else does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken._correlation import known_correlation
from kwiken._errors import InputError
from kwiken._pool import Pool, complete_calls, pool
from kwiken._profile import Floats, Profile, StageProfile
from kwiken.queueing._law import Constant, Empirical, Law, LogNormal
from kwiken.queueing._network import Primaries
from kwiken.queueing._race import Calls
from kwiken.queueing._serve import serve
from kwiken.queueing._station import Background, Cancel, Dispatch, Station

PILOT = 1 << 15  # calls behind a law of waits
ROUNDS = 40  # of correcting the law of rests
BODY = 0.95  # share of the latencies whose spread is taken for that of the work where none was measured
MISFIT = 0.05  # relative error of a percentile that is worth a word
CHECKED = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class StageModel:
    """One stage of a profile, taken apart.

    Attributes:
        station: its replicas, its laws of work and rest; without replicas where load does not act on it.
        utilisation: share of the replicas' time that was used, background included; 0 without replicas.
        calls_ms: (n, width) latencies of the profile, the cancelled ones filled in; NaN for no call.
        rest_ms: (n, width) the part of them that is neither work nor waiting.
        visits_per_s: calls' groups a second; each has as many calls as a row.
        misfit: the largest relative error of p50, p90 and p99 at the profile's own load.
        crowded: by how much work and wait alone pass one of these, as a share of it; 0 where they do not.
    """

    station: Station
    utilisation: float
    calls_ms: Floats
    rest_ms: Floats
    visits_per_s: float
    misfit: float = 0.0
    crowded: float = 0.0

    def inflated(self, factor: float, *, seed: int) -> Floats:
        """(n, width) latencies of the same calls at `factor` times the calls.

        Rank for rank, so that all that made requests slow together does so still.

        Raises:
            InputError: when the replicas could not do so much.
        """
        return self.slower(self.calls_ms, factor, seed=seed)

    def slower(self, latency_ms: Floats, factor: float, *, seed: int) -> Floats:
        """What other latencies of this stage would be at `factor` times the calls; shape kept, NaN too.

        Raises:
            InputError: when the replicas could not do so much.
        """
        self.check(factor)
        if self.station.replicas is None or factor == 1.0:
            return latency_ms
        rest = _spread(self.rest_ms[~np.isnan(self.rest_ms)])
        then, now = (np.sort(rest[_shuffle(seed)] + _pilot(self, factor=f, seed=seed)) for f in (1.0, factor))
        longer = np.interp(_ranks(Pool.of(self.calls_ms), latency_ms), _LEVELS, now - then)
        return np.asarray(np.maximum(0.0, latency_ms + longer))

    def check(self, factor: float) -> None:
        """Refuse a load that is more than the replicas can do.

        Raises:
            InputError: naming the stage.
        """
        busy = self.busy_at(factor)
        if busy >= 1:
            raise InputError(
                f"stage {self.station.name!r} would be busy {busy:.0%} of the time with "
                f"{self.station.replicas} replicas: more calls than it can serve"
            )

    def busy_at(self, factor: float) -> float:
        """Share of the replicas' time that is used at `factor` times the calls, without copies."""
        return self._other_work + (self.utilisation - self._other_work) * factor

    def factor_at(self, utilisation: float) -> float:
        """The factor at which the replicas are used so much; infinite where load does not act."""
        own = self.utilisation - self._other_work
        return (utilisation - self._other_work) / own if own > 0 else math.inf

    @property
    def _other_work(self) -> float:
        return self.station.background.utilisation if self.station.background is not None else 0.0

    def primaries(
        self, rows: np.ndarray[tuple[int], np.dtype[np.int64]], rng: np.random.Generator
    ) -> Primaries:
        """The calls of these requests: their own rests, and work drawn on its own."""
        rest = self.rest_ms[rows]
        work = self.station.work.draw(rng, rest.size).reshape(rest.shape)
        return Primaries(np.where(np.isnan(rest), np.nan, work), rest)


@dataclass(frozen=True)
class LoadModel:
    """A profile, taken apart.

    Attributes:
        profile: which.
        rate_per_s: requests a second then.
        stages: by name, parents before children.
        notes: what a reader should know, in words.
    """

    profile: Profile
    rate_per_s: float
    stages: Mapping[str, StageModel]
    notes: tuple[str, ...]

    def check(self, factor: float) -> None:
        """Refuse a load that is more than some stage's replicas can do.

        Raises:
            InputError: naming the stage; or for a factor that is no finite number above 0.
        """
        if not 0 < factor < math.inf:
            raise InputError(f"must be a finite number above 0, not {factor}", where="load")
        for stage in self.stages.values():
            stage.check(factor)


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
        says so. Replicas are taken to serve one call at a time, in the order of arrival.

    Raises:
        InputError: for a stage that the profile lacks, one whose replicas nobody knows, one that would be
            busy all the time, or a profile that load acts on nowhere.
    """
    given, known = replicas or {}, utilisation or {}
    _check_names(profile, given, "replicas")
    _check_names(profile, known, "utilisation")
    rate = _rate(profile) if rate_per_s is None else rate_per_s
    if not 0 < rate < math.inf:
        raise InputError(f"must be a finite number of requests a second above 0, not {rate}", where="rate")
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
            "no stage has a measured busy time, so nobody knows how load acts on it; give utilisations",
            where="utilisation",
        )
    return LoadModel(profile, rate, stages, tuple(_notes(profile, stages)))


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
        raise InputError("its requests span no time, so their rate is not known; give it", where="rate")
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
        raise InputError(f"of stage {stage.name!r} nobody knows how many it has; give them", where="replicas")
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
            f"stage {stage.name!r} would have been busy {busy:.0%} of the time with {replicas} replicas: "
            "its replicas or the rate are not what was given"
        )
    return station


def _work(stage: StageProfile, law: Pool, mean_ms: float) -> Law:
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
    rest: Law = Empirical(Pool.of(there)) if len(there) else Constant(0.0)
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


# Laws are compared at so many levels, those of a sorted pilot.
_LEVELS = (np.arange(PILOT) + 0.5) / PILOT


def _taken_apart(station: Station, calls: Floats, rate: float, alike: float, *, seed: int) -> StageModel:
    """Find the law of rests: put right what work, wait and rest together have too much or too little."""
    law = Pool.of(calls)
    visits = float(rate * (~np.isnan(calls)).any(axis=1).mean())
    model = StageModel(station, 0.0, calls, calls, visits)
    busy = _pilot(model, factor=1.0, seed=seed)
    wanted = law.quantile(_LEVELS)
    shuffled = _shuffle(seed)
    rest = np.zeros(PILOT)
    for _ in range(ROUNDS):
        rest = np.sort(np.maximum(0.0, rest + wanted - np.sort(rest[shuffled] + busy)))
    explained = np.interp(_ranks(law, calls), _LEVELS, wanted - rest)
    rests = np.where(np.isnan(calls), np.nan, np.maximum(0.0, calls - explained))
    got = np.sort(rest[shuffled] + busy)
    at = (np.asarray(CHECKED) * PILOT).astype(int)
    least = np.maximum(wanted[at], 1e-9)
    own = station.work.mean_ms * rate * float((~np.isnan(calls)).sum()) / len(calls) / 1e3
    assert station.replicas is not None
    background = station.background.utilisation if station.background is not None else 0.0
    return replace(
        model,
        station=replace(station, rest=Empirical(Pool.of(rests)), alike=alike),
        utilisation=own / station.replicas + background,
        rest_ms=rests,
        misfit=float((np.abs(got[at] - wanted[at]) / least).max()),
        crowded=max(0.0, float(((np.sort(busy)[at] - wanted[at]) / least).max())),
    )


def _pilot(model: StageModel, *, factor: float, seed: int) -> Floats:
    """(PILOT,): work and wait at `factor` times the profile's rate; the same calls for every factor."""
    station = replace(model.station, rest=Constant(0.0), reissue=None, alike=0.0)
    draws, serving = np.random.default_rng([seed, PILOT]).spawn(2)
    widths = (~np.isnan(model.calls_ms)).sum(axis=1)
    widths = widths[widths > 0]
    visits = draws.choice(widths, size=PILOT)
    arrival = np.cumsum(draws.standard_exponential(PILOT)) * (1e3 / (model.visits_per_s * factor))
    arrival = np.repeat(arrival, visits)[:PILOT]
    calls = Calls(arrival, station.work.draw(draws, PILOT), np.zeros(PILOT), np.full(PILOT, -1))
    return serve(station, calls, serving).latency_ms


def _shuffle(seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.random.default_rng([seed, PILOT, 1]).permutation(PILOT)


def _spread(values: Floats) -> Floats:
    """(PILOT,) ascending: the law of some values at the levels."""
    return Pool.of(values).quantile(_LEVELS)


def _ranks(law: Pool, values: Floats) -> Floats:
    """Shares of the law below the values; ties take their middle, NaN anything."""
    cdf = np.concatenate(([0.0], law.cdf))
    below = cdf[np.searchsorted(law.values, values, side="left")]
    upto = cdf[np.searchsorted(law.values, values, side="right")]
    return np.asarray((below + upto) / 2)


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
