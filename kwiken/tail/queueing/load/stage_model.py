"""Load model of stages: distributions of work and rest, and latencies at other loads."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile
from kwiken.tail.queueing.load.notes import LoadNote
from kwiken.tail.queueing.load.stalls import Stalls
from kwiken.tail.queueing.simulator.calls import SimulatedCalls
from kwiken.tail.queueing.simulator.network import Primaries
from kwiken.tail.queueing.simulator.service_times import Constant
from kwiken.tail.queueing.simulator.stage import serve
from kwiken.tail.queueing.simulator.station import Station

Ints = NDArray[np.int64]

MAX_PILOT_CALLS = 1 << 15  # calls of a pilot simulation, which gives a distribution of waits
MIN_PILOT_CALLS = 1 << 12  # lower bound of the same
PILOT_CALLS_PER_CALL = 4  # beyond so many per measured call, the sampling error of the profile dominates
CHECKED_QUANTILES = (0.5, 0.9, 0.99)  # quantiles at which distributions are compared
MIN_MISFIT_NOTED = 0.1  # relative error of a quantile from which a note is given
MIN_MS = 1e-9  # stands for 0 ms as a divisor
MAX_CAUGHT_SHARE = 0.9  # share of requests that pauses may catch
MAX_CACHED = 3  # latency distributions kept per stage


@dataclass(frozen=True)
class StageModel:
    """Load model of one stage: its latencies decomposed into work, waits and rests.

    Attributes:
        station: replicas and distributions of work and rest; without replicas where load does not act on it.
        utilisation: share of the replicas' time in use, background included; 0 without replicas.
        calls_ms: (n, width) latencies of the profile until the answer reached the caller, with estimates for
            cancelled calls; NaN for no call.
        rest_ms: (n, width) the part of each latency that is neither work nor waiting.
        visits_per_s: visits (requests that call the stage) a second; a visit makes all calls of a row.
        misfit: the largest error of p50, p90 and p99 at the profile's own load, as a share of each.
        excess_wait: largest excess of work and wait alone over one of these, as a share of it; 0 for none.
        lag_ms: (n, width) time that each answer lay at the caller, milliseconds, at any load; None where it
            is not known.
    """

    station: Station
    utilisation: float
    calls_ms: Floats
    rest_ms: Floats
    visits_per_s: float
    misfit: float = 0.0
    excess_wait: float = 0.0
    lag_ms: Floats | None = None
    _distributions: dict[tuple[float, int], Floats] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def calls_per_request(self) -> float:
        """Mean number of calls of a request, skipped visits included."""
        return float((~np.isnan(self.calls_ms)).sum() / max(1, len(self.calls_ms)))

    @property
    def pilot_calls(self) -> int:
        """Number of calls to simulate for a distribution of waits."""
        return min(
            MAX_PILOT_CALLS,
            max(MIN_PILOT_CALLS, PILOT_CALLS_PER_CALL * int((~np.isnan(self.calls_ms)).sum())),
        )

    def calls_at(self, factor: float, *, seed: int) -> Floats:
        """(n, width) latencies of the same calls at `factor` times the rate of calls.

        Ranks are kept, so that a common cause that made requests slow at several stages still does.

        Args:
            factor: rate of calls as a multiple of the profile's; above 0.
            seed: seed of all draws.

        Raises:
            InputError: where the replicas cannot serve that rate.
        """
        return self.latencies_at(self.calls_ms, factor, seed=seed)

    def latencies_at(self, latency_ms: Floats, factor: float, *, seed: int) -> Floats:
        """(m, k): other latencies of this stage as they would be at `factor` times the calls, milliseconds.

        Args:
            latency_ms: (m, k) latencies of calls or pairs, milliseconds; NaN, for no call, stays.
            factor: rate of calls as a multiple of the profile's; above 0.
            seed: seed of all draws.

        Raises:
            InputError: where the replicas cannot serve that rate.
        """
        self.check(factor)
        if self.station.replicas is None or factor == 1.0:
            return latency_ms
        then, now = self._pilot_latencies(1.0, seed), self._pilot_latencies(factor, seed)
        distribution, at = EmpiricalDistribution.of(self.calls_ms), levels(len(now))
        measured = distribution.quantile(at)
        # The running order of quantiles is kept: no call overtakes another by a change of load.
        longer = np.sort(np.maximum(0.0, measured + now - then)) - measured
        return np.asarray(
            np.maximum(0.0, latency_ms + np.interp(ranks(distribution, latency_ms), at, longer))
        )

    def _pilot_latencies(self, factor: float, seed: int) -> Floats:
        """(pilot_calls,) ascending latencies at a load; cached for the profile's own and a few others."""
        known = self._distributions.get((factor, seed))
        if known is not None:
            return known
        size = self.pilot_calls
        rest = EmpiricalDistribution.of(self.rest_ms[~np.isnan(self.rest_ms)]).quantile(levels(size))
        found = np.sort(pilot(self, rest[shuffle(size, seed)], factor=factor, seed=seed))
        others = [key for key in self._distributions if key[0] != 1.0]
        for key in others[: len(others) + 1 - MAX_CACHED]:
            del self._distributions[key]
        self._distributions[factor, seed] = found
        return found

    def check(self, factor: float) -> None:
        """Refuse a load, as a multiple of the profile's, that is more than the replicas can serve.

        Raises:
            InputError: names the stage.
        """
        busy = self.busy_at(factor)
        if busy >= 1:
            many = self.station.replicas
            raise InputError(
                f"stage {self.station.name!r} would be busy {busy:.0%} of the time with {many} "
                f"replica{'s' if many != 1 else ''}: more calls than it can serve"
            )

    def busy_at(self, factor: float) -> float:
        """Share of the replicas' time in use at `factor` times the calls, without copies."""
        return self._other_work + (self.utilisation - self._other_work) * factor

    def factor_at(self, utilisation: float) -> float:
        """The factor at which the replicas reach a utilisation; infinite where load does not act."""
        own = self.utilisation - self._other_work
        return (utilisation - self._other_work) / own if own > 0 else math.inf

    @property
    def _other_work(self) -> float:
        return self.station.background.utilisation if self.station.background is not None else 0.0

    def primaries(
        self, rows: Ints, rng: np.random.Generator, stalls: Stalls | None = None, factor: float = 1.0
    ) -> Primaries:
        """Primary calls of requests: the recorded rests, and work drawn from its distribution.

        Args:
            rows: (m,) indices of the requests in the profile.
            stalls: pauses of the stage's replicas; None where they are not known.
            factor: load as a multiple of the profile's, at which the pauses are met.
        """
        rest = self.rest_ms[rows]
        if stalls is not None and factor != 1.0:
            longer = np.maximum(0.0, rest + stalls.extra_wait_ms(factor))
            rest = np.where(stalls.caught[rows], longer, rest)
        work = self.station.work.draw(rng, rest.size).reshape(rest.shape)
        lag = self.lag_ms[rows] if self.lag_ms is not None else None
        return Primaries(np.where(np.isnan(rest), np.nan, work), rest, lag)


@dataclass(frozen=True)
class LoadModel:
    """Load model of a whole service.

    Attributes:
        profile: profile that the model was built from.
        rate_per_s: requests a second of the profile.
        stages: models by stage name, parents before children.
        notes: what is known of the quality of the model.
        stalls: pauses of replicas by stage, where they are known.
    """

    profile: Profile
    rate_per_s: float
    stages: Mapping[str, StageModel]
    notes: tuple[LoadNote, ...]
    stalls: Mapping[str, Stalls] = field(default_factory=dict)

    @property
    def calls_per_request(self) -> float:
        """Mean number of calls of a request, at all stages."""
        return sum(stage.calls_per_request for stage in self.stages.values())

    def rows(self, factor: float, count: int, rng: np.random.Generator, among: Ints | None = None) -> Ints:
        """(count,): indices of the profile's requests, drawn with their probabilities at that load.

        The number of pauses is proportional to time and all else to load, so requests that met a pause are
        weighted anew.

        Args:
            factor: load as a multiple of the profile's; above 0.
            among: (m,) indices of the requests to draw from, at least one; None for all.
        """
        weight = np.ones(self.profile.requests)
        for stalls in self.stalls.values():
            weight[stalls.caught.any(axis=1)] *= stalls.probability_factor(factor)
        if among is not None:
            weight = weight[among]
        met = weight != 1.0
        if factor == 1.0 or not met.any() or met.all():
            drawn = rng.integers(len(weight), size=count)
            return drawn if among is None else among[drawn]
        chance = np.where(met, weight / len(weight), 0.0)
        chance *= min(1.0, MAX_CAUGHT_SHARE / chance.sum())
        chance[~met] = (1.0 - chance.sum()) / np.count_nonzero(~met)
        drawn = rng.choice(len(weight), size=count, p=chance)
        return drawn if among is None else among[drawn]

    def check(self, factor: float) -> None:
        """Refuse a load that is more than some stage's replicas can serve.

        Raises:
            InputError: names the stage; also for a factor that is not a finite number above 0.
        """
        if not 0 < factor < math.inf:
            raise InputError(f"must be a finite number above 0, not {factor}", where="load")
        for stage in self.stages.values():
            stage.check(factor)


def pilot(model: StageModel, rest: Floats, *, factor: float, seed: int) -> Floats:
    """(m,): latencies at `factor` times the profile's rate; the same calls for every factor.

    Args:
        rest: (m,) rest of each call, milliseconds. A call at rest counts as load of its replica, because its
            caller cannot tell it from one that waits, so rests affect the choice of replicas and the waits.
        factor: load as a multiple of the profile's; above 0.
        seed: seed of all draws.
    """
    station = replace(model.station, rest=Constant(0.0), reissue=None, copy_correlation=0.0)
    size = len(rest)
    draws, serving = np.random.default_rng([seed, MAX_PILOT_CALLS, zlib.crc32(station.name.encode())]).spawn(
        2
    )
    widths = (~np.isnan(model.calls_ms)).sum(axis=1)
    widths = widths[widths > 0]
    visits = draws.choice(widths, size=size)
    arrival = np.repeat(np.cumsum(draws.standard_exponential(size)), visits)[:size]
    arrival *= size / (widths.mean() * arrival[-1]) * 1e3 / (model.visits_per_s * factor)
    work = station.work.draw(draws, size)
    work *= station.work.mean_ms / max(float(work.mean()), math.ulp(0.0))
    calls = SimulatedCalls(arrival, work, rest, np.full(size, -1))
    return serve(station, calls, serving).latency_ms


@lru_cache(maxsize=4)
def levels(size: int) -> Floats:
    """(size,): probability levels of a sorted pilot of so many calls, at which distributions are compared."""
    return (np.arange(size) + 0.5) / size


def shuffle(size: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(size,): a random permutation of a pilot's calls."""
    return np.random.default_rng([seed, MAX_PILOT_CALLS, 1]).permutation(size)


def ranks(distribution: EmpiricalDistribution, values: Floats) -> Floats:
    """Cumulative probabilities of values under a distribution: the middle for ties, undefined for NaN."""
    cdf = np.concatenate(([0.0], distribution.cdf))
    below = cdf[np.searchsorted(distribution.values, values, side="left")]
    upto = cdf[np.searchsorted(distribution.values, values, side="right")]
    return np.asarray((below + upto) / 2)


def unexplained(calls_ms: Floats, wanted: Floats, rests: Floats) -> Floats:
    """(n, width): the rest of each call, assigned in the order of latency.

    A request that is slow at every stage keeps its rank at each one.

    Args:
        calls_ms: (n, width) latencies, milliseconds; NaN for no call.
        wanted: (k,) ascending quantiles of these latencies, milliseconds.
        rests: (k,) ascending quantiles of their rests, milliseconds.
    """
    explained = np.interp(
        ranks(EmpiricalDistribution.of(calls_ms), calls_ms), levels(len(rests)), wanted - rests
    )
    return np.where(np.isnan(calls_ms), np.nan, np.maximum(0.0, calls_ms - explained))


def excess(got: Floats, wanted: Floats) -> Floats:
    """Relative excess of one distribution over another at `CHECKED_QUANTILES`.

    Args:
        got: (k,) ascending values of the first.
        wanted: (k,) ascending values of the second.
    """
    at = (np.asarray(CHECKED_QUANTILES) * len(wanted)).astype(int)
    return np.asarray((got - wanted)[at] / np.maximum(wanted[at], MIN_MS))
