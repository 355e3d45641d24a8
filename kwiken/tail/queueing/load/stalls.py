"""Pauses of replicas, inferred from calls that waited together, and their frequency at another load.

A call may be slow by itself, or because its replica paused. Other calls tell the two apart: a call that came
to the same replica at the same time or later and was answered earlier shows that the replica worked; where
all later calls waited as well, the replica paused. The share of calls that are slow by themselves is the same
at every load. Pauses are proportional to time; and because replica choice avoids a replica that does not
answer, a pause mostly catches the calls of one visit, at every load. So at half the load up to twice the
share of calls is caught.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.model.latency import finish_times, start_times
from kwiken.model.profile.profile import Profile, StageProfile

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
USUAL_QUANTILE: Final = 0.9  # quantile of a stage's calls taken as the latency outside pauses
LONG_FACTOR: Final = 5.0  # multiple of that latency above which a call may have met a pause
MAX_PASSED_SHARE: Final = 0.25  # share of later calls answered earlier, above which slow calls are no pauses
MIN_LATER_CALLS: Final = 3  # later calls needed to decide: a slow call hardly ever holds up three others
MAX_CALLS_IN_PAUSE: Final = 500.0  # calls during a pause, beyond which their number does not matter
MIN_MET: Final = 1e-3  # least probability that a pause catches a call, so that one stands for 1,000 at most
FIXED_POINT_STEPS: Final = 100  # iterations from observed waits to pause lengths; the map is a contraction


@dataclass(frozen=True)
class Stalls:
    """Pauses of one stage's replicas.

    Attributes:
        caught: (n, width) whether a call met a pause.
        rate_per_ms: visits a millisecond that one replica gets at the profile's load.
        length_ms: (k,) lengths of the pauses that caught a call.
    """

    caught: Bools
    rate_per_ms: float
    length_ms: Floats

    @property
    def number(self) -> Floats:
        """(k,): number of pauses of its length that each one stands for, with those that caught no call."""
        return 1.0 / np.maximum(self._probability_met(1.0), MIN_MET)

    def probability_factor(self, factor: float) -> float:
        """Factor on the probability that a call meets a pause at `factor` times the profile's load.

        Args:
            factor: load as a multiple of the profile's; above 0.
        """
        weight = 1.0 / self._probability_met(1.0)  # corrects for pauses that caught no call
        return float((weight @ self._probability_met(factor)) / len(weight) / factor)

    def extra_wait_ms(self, factor: float) -> float:
        """Additional wait of caught calls at a load, milliseconds: at high load the first arrives earlier.

        Args:
            factor: load as a multiple of the profile's; above 0.
        """
        weight = self._probability_met(factor) / self._probability_met(1.0)
        then = (weight @ (self.length_ms - self._lead_ms(factor))) / weight.sum()
        return float(then - (self.length_ms - self._lead_ms(1.0)).mean())

    def _probability_met(self, factor: float) -> Floats:
        """(k,): probability that a call comes during each pause."""
        return np.asarray(-np.expm1(-self.rate_per_ms * factor * self.length_ms))

    def _lead_ms(self, factor: float) -> Floats:
        """(k,): mean time from the beginning of each pause to its first call, milliseconds."""
        return lead_ms(self.length_ms, self.rate_per_ms * factor)


def lead_ms(length_ms: Floats, rate_per_ms: float) -> Floats:
    """(k,): mean time from the beginning of a pause to its first call, given that there is one, milliseconds.

    Args:
        length_ms: (k,) lengths of the pauses.
        rate_per_ms: rate of calls, a Poisson process, per millisecond.
    """
    calls_in_pause = np.minimum(MAX_CALLS_IN_PAUSE, rate_per_ms * length_ms)
    return np.asarray(1.0 / rate_per_ms - length_ms / np.expm1(calls_in_pause))


def stalls_of(profile: Profile, rate_per_s: float, *, min_later: int = MIN_LATER_CALLS) -> dict[str, Stalls]:
    """Pauses by stage; empty where slow calls were slow by themselves, or the data cannot tell.

    Args:
        profile: profile with the replica of each call.
        rate_per_s: requests a second of the profile.
        min_later: calls needed that came to a replica while a slow one was there, 1 or more.
    """
    if not profile.requests:
        return {}
    starts, span_ms = _starts(profile), profile.requests / rate_per_s * 1e3
    evidence = {
        stage.name: found
        for stage in profile.stages
        if (found := _pause_evidence(stage.without_lag(), starts[stage.name])) is not None
    }
    later, passed = (sum(getattr(found, name) for found in evidence.values()) for name in ("later", "passed"))
    if later < min_later or passed > MAX_PASSED_SHARE * later:
        return {}
    return {name: found.stalls(span_ms) for name, found in evidence.items() if len(found.waited_ms)}


def _starts(profile: Profile) -> Mapping[str, Floats]:
    """By stage: (n,) start times of its visits, milliseconds."""
    arrival = (profile.started_s - profile.started_s.min()) * 1e3
    ends = finish_times(profile.stages, {stage.name: stage.latency_ms for stage in profile.stages})
    after = {stage.name: start_times(stage, ends) for stage in profile.stages}
    return {name: arrival if waits_ms is None else arrival + waits_ms for name, waits_ms in after.items()}


@dataclass(frozen=True)
class _PauseEvidence:
    """Evidence of pauses at one stage; k pauses.

    Attributes:
        caught: (n, width) whether a call was long.
        waited_ms: (k,) wait of the first call of each pause.
        later: number of calls that came to a replica together with a long call or during its wait.
        passed: number of those that were answered before the long call.
    """

    caught: Bools
    waited_ms: Floats
    later: int
    passed: int
    visits: int
    replicas: int

    def stalls(self, span_ms: float) -> Stalls:
        rate = self.visits / self.replicas / span_ms
        length = self.waited_ms + 1.0 / rate
        for _ in range(FIXED_POINT_STEPS):
            length = self.waited_ms + lead_ms(length, rate)
        return Stalls(self.caught, rate, length)


def _pause_evidence(stage: StageProfile, start: Floats) -> _PauseEvidence | None:
    if stage.asked is None or not stage.replicas:
        return None
    known = (stage.asked >= 0) & ~np.isnan(stage.calls_ms) & ~stage.censored
    row, shard = np.nonzero(known)
    if not len(row):
        return None
    order = np.argsort(start[row], kind="stable")
    row, shard = row[order], shard[order]
    arrival, took, asked = start[row], stage.calls_ms[row, shard], stage.asked[row, shard]
    typical_ms = float(np.quantile(took, USUAL_QUANTILE))
    waits_ms: list[float] = []
    later = passed = visits = 0
    for replica in range(stage.replicas):
        own = np.flatnonzero(asked == replica)
        found = _pauses_of_replica(arrival[own], took[own], typical_ms)
        waits_ms += [float(wait) - typical_ms for wait in took[own][found.first_calls]]
        later, passed = later + found.later, passed + found.passed
        visits += len(np.unique(row[own]))
    caught = np.where(known, stage.calls_ms, 0.0) > LONG_FACTOR * typical_ms
    return _PauseEvidence(caught, np.array(waits_ms), later, passed, visits, stage.replicas)


class _ReplicaPauses(NamedTuple):
    """Pauses of one replica.

    Attributes:
        first_calls: index of the first call of each pause.
        later: number of calls during pauses, without the first ones.
        passed: number of those that were answered before the first call.
    """

    first_calls: list[int]
    later: int
    passed: int


def _pauses_of_replica(arrival: Floats, took: Floats, typical_ms: float) -> _ReplicaPauses:
    """Find the pauses of one replica from its calls, in the order of arrival."""
    first_calls: list[int] = []
    later = passed = 0
    until = -np.inf
    for call in np.flatnonzero(took > LONG_FACTOR * typical_ms).tolist():
        if arrival[call] < until:
            continue
        until = float(arrival[call] + took[call])
        first_calls.append(call)
        begin, end = np.searchsorted(arrival, [arrival[call], until - typical_ms], side="left")
        later += int(end - begin) - 1  # without the long call itself
        passed += int((arrival[begin:end] + took[begin:end] < until - typical_ms).sum())
    return _ReplicaPauses(first_calls, later, passed)
