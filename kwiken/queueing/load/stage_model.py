"""What load does to a profile: its stages, taken apart into work, waits and a rest."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kwiken.arrays import Floats
from kwiken.errors import InputError
from kwiken.profile import EmpiricalDistribution, Profile
from kwiken.queueing.load.stalls import Stalls
from kwiken.queueing.simulator import Calls, Constant, Primaries, Station, serve

Ints = NDArray[np.int64]

PILOT = 1 << 15  # calls behind a law of waits,
FEWEST = 1 << 12  # or at least so many
OVER = 4  # where they are so many times those measured: the chance in these is then the greater by far
CHECKED = (0.5, 0.9, 0.99)  # quantiles by which laws are compared
MISFIT = 0.1  # relative error of one that is worth a word
LEAST_MS = 1e-9  # what stands for no time where it divides
MOST_MET = 0.9  # share of requests that pauses may catch
KEPT = 3  # laws of latencies that a stage keeps


@dataclass(frozen=True)
class StageModel:
    """One stage of a profile, taken apart.

    Attributes:
        station: its replicas, its laws of work and rest; without replicas where load does not act on it.
        utilisation: share of the replicas' time that was used, background included; 0 without replicas.
        calls_ms: (n, width) latencies of the profile, the cancelled ones filled in; NaN for no call.
        rest_ms: (n, width) the part of them that is neither work nor waiting.
        visits_per_s: calls' groups a second; each has as many calls as a row.
        misfit: the largest error of p50, p90 and p99 at the profile's own load, as a share of each.
        crowded: by how much work and wait alone pass one of these, as a share of it; 0 where they do not.
    """

    station: Station
    utilisation: float
    calls_ms: Floats
    rest_ms: Floats
    visits_per_s: float
    misfit: float = 0.0
    crowded: float = 0.0
    _laws: dict[tuple[float, int], Floats] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def calls_per_request(self) -> float:
        """Mean number of calls of a request, skipped visits included."""
        return float((~np.isnan(self.calls_ms)).sum() / max(1, len(self.calls_ms)))

    @property
    def pilot_calls(self) -> int:
        """How many calls to simulate for a law of waits."""
        return min(PILOT, max(FEWEST, OVER * int((~np.isnan(self.calls_ms)).sum())))

    def inflated(self, factor: float, *, seed: int) -> Floats:
        """(n, width) latencies of the same calls at `factor` times the calls.

        Rank for rank, so that all that made requests slow together does so still.

        Args:
            factor: the calls, times the profile's.
            seed: of all draws.

        Raises:
            InputError: when the replicas could not do so much.
        """
        return self.slower(self.calls_ms, factor, seed=seed)

    def slower(self, latency_ms: Floats, factor: float, *, seed: int) -> Floats:
        """(m, k): what other latencies of this stage would be at `factor` times the calls, milliseconds.

        Args:
            latency_ms: (m, k) of calls or of pairs, milliseconds; NaN, where there was no call, stays.
            factor: the calls, times the profile's.
            seed: of all draws.

        Raises:
            InputError: when the replicas could not do so much.
        """
        self.check(factor)
        if self.station.replicas is None or factor == 1.0:
            return latency_ms
        then, now = self._law(1.0, seed), self._law(factor, seed)
        law, at = EmpiricalDistribution.of(self.calls_ms), levels(len(now))
        measured = law.quantile(at)
        longer = np.sort(np.maximum(0.0, measured + now - then)) - measured  # no call passes another
        return np.asarray(np.maximum(0.0, latency_ms + np.interp(ranks(law, latency_ms), at, longer)))

    def _law(self, factor: float, seed: int) -> Floats:
        """(pilot_calls,) ascending: latencies at that load. Kept: the profile's own, and the last others."""
        known = self._laws.get((factor, seed))
        if known is not None:
            return known
        size = self.pilot_calls
        rest = EmpiricalDistribution.of(self.rest_ms[~np.isnan(self.rest_ms)]).quantile(levels(size))
        found = np.sort(pilot(self, rest[shuffle(size, seed)], factor=factor, seed=seed))
        others = [key for key in self._laws if key[0] != 1.0]
        for key in others[: len(others) + 1 - KEPT]:
            del self._laws[key]
        self._laws[factor, seed] = found
        return found

    def check(self, factor: float) -> None:
        """Refuse a load, so many times the profile's, that is more than the replicas can do.

        Raises:
            InputError: naming the stage.
        """
        busy = self.busy_at(factor)
        if busy >= 1:
            many = self.station.replicas
            raise InputError(
                f"stage {self.station.name!r} would be busy {busy:.0%} of the time with {many} "
                f"replica{'s' if many != 1 else ''}: more calls than it can serve"
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
        self, rows: Ints, rng: np.random.Generator, stalls: Stalls | None = None, factor: float = 1.0
    ) -> Primaries:
        """The calls of these requests: their own rests, and work that is drawn on its own.

        Args:
            rows: (m,) places of the requests in the profile.
            rng: where chance comes from.
            stalls: how its replicas paused; None where nobody knows.
            factor: the load, times the profile's, at which they paused.
        """
        rest = self.rest_ms[rows]
        if stalls is not None and factor != 1.0:
            longer = np.maximum(0.0, rest + stalls.longer_ms(factor))
            rest = np.where(stalls.caught[rows], longer, rest)
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
        stalls: by stage: how its replicas paused, where that is known.
    """

    profile: Profile
    rate_per_s: float
    stages: Mapping[str, StageModel]
    notes: tuple[str, ...]
    stalls: Mapping[str, Stalls] = field(default_factory=dict)

    @property
    def calls_per_request(self) -> float:
        """Mean number of calls of a request, at all stages."""
        return sum(stage.calls_per_request for stage in self.stages.values())

    def rows(self, factor: float, count: int, rng: np.random.Generator) -> Ints:
        """(count,): requests of the profile, drawn as they would be met at that load.

        Those that met a pause come with the time, all others with the load.

        Args:
            factor: the load, times the profile's.
            count: how many.
            rng: where chance comes from.
        """
        weight = np.ones(self.profile.requests)
        for stalls in self.stalls.values():
            weight[stalls.caught.any(axis=1)] *= stalls.likelier(factor)
        met = weight != 1.0
        if factor == 1.0 or not met.any() or met.all():
            return rng.integers(self.profile.requests, size=count)
        chance = np.where(met, weight / len(weight), 0.0)
        chance *= min(1.0, MOST_MET / chance.sum())
        chance[~met] = (1.0 - chance.sum()) / np.count_nonzero(~met)
        return rng.choice(len(weight), size=count, p=chance)

    def check(self, factor: float) -> None:
        """Refuse a load that is more than some stage's replicas can do.

        Raises:
            InputError: naming the stage; or for a factor that is no finite number above 0.
        """
        if not 0 < factor < math.inf:
            raise InputError(f"must be a finite number above 0, not {factor}", where="load")
        for stage in self.stages.values():
            stage.check(factor)


def pilot(model: StageModel, rest: Floats, *, factor: float, seed: int) -> Floats:
    """(m,): latencies at `factor` times the profile's rate; the same calls for every factor.

    Args:
        model: of the stage.
        rest: (m,) of each call. Callers cannot tell calls at rest from those that wait, so where replicas
            are chosen by load it matters to waits.
        factor: the load, in the profile's.
        seed: of all draws.
    """
    station = replace(model.station, rest=Constant(0.0), reissue=None, alike=0.0)
    size = len(rest)
    draws, serving = np.random.default_rng([seed, PILOT, zlib.crc32(station.name.encode())]).spawn(2)
    widths = (~np.isnan(model.calls_ms)).sum(axis=1)
    widths = widths[widths > 0]
    visits = draws.choice(widths, size=size)
    arrival = np.repeat(np.cumsum(draws.standard_exponential(size)), visits)[:size]
    arrival *= size / (widths.mean() * arrival[-1]) * 1e3 / (model.visits_per_s * factor)
    work = station.work.draw(draws, size)
    work *= station.work.mean_ms / max(float(work.mean()), math.ulp(0.0))
    calls = Calls(arrival, work, rest, np.full(size, -1))
    return serve(station, calls, serving).latency_ms


@lru_cache(maxsize=4)
def levels(size: int) -> Floats:
    """(size,): the levels at which laws are compared, those of a sorted pilot of so many calls."""
    return (np.arange(size) + 0.5) / size


def shuffle(size: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(size,): the calls of a pilot in another order."""
    return np.random.default_rng([seed, PILOT, 1]).permutation(size)


def ranks(law: EmpiricalDistribution, values: Floats) -> Floats:
    """Shares of the law below the values; ties take their middle, NaN anything."""
    cdf = np.concatenate(([0.0], law.cdf))
    below = cdf[np.searchsorted(law.values, values, side="left")]
    upto = cdf[np.searchsorted(law.values, values, side="right")]
    return np.asarray((below + upto) / 2)


def unexplained(calls_ms: Floats, wanted: Floats, rests: Floats) -> Floats:
    """(n, width): what of calls is rest; rank for rank, so what made a request slow everywhere still does.

    Args:
        calls_ms: (n, width) milliseconds; NaN for no call.
        wanted: (k,) ascending: the law of these calls.
        rests: (k,) ascending: the law of their rests.
    """
    explained = np.interp(
        ranks(EmpiricalDistribution.of(calls_ms), calls_ms), levels(len(rests)), wanted - rests
    )
    return np.where(np.isnan(calls_ms), np.nan, np.maximum(0.0, calls_ms - explained))


def excess(got: Floats, wanted: Floats) -> Floats:
    """By how much one law passes another at the quantiles `CHECKED`, as a share of each.

    Args:
        got: (k,) ascending.
        wanted: (k,) ascending.
    """
    at = (np.asarray(CHECKED) * len(wanted)).astype(int)
    return np.asarray((got - wanted)[at] / np.maximum(wanted[at], LEAST_MS))
