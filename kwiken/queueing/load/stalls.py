"""Replicas that stand still, read from who waited for whom, and how often that is met at another load.

A call may be slow by itself, or because its replica stood still. Others tell: a call that came to the same
replica with it or later, and was answered earlier, shows that the replica worked; where all that came had to
wait as well, it stood. Calls that are slow by themselves come with the calls: as many in a hundred at every
load. Pauses come with the time; and as a good picker sends no more to a replica that is silent, a pause
mostly catches one visit's calls, at every load. So at half the load up to twice as many in a hundred are
caught.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kwiken.arrays import Floats
from kwiken.latency import finish_times, start_times
from kwiken.profile import Profile, StageProfile

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
USUAL: Final = 0.9  # quantile of a stage's calls that nothing caught
LONG: Final = 5.0  # times that: a call that may have been caught
PASSED: Final = 0.25  # of later calls that were answered earlier: above, slow calls are slow by themselves
FEWEST: Final = 3  # later calls below which nobody can tell: slow calls hardly ever hold up three
MANY: Final = 500.0  # calls during a pause, beyond which their number does not matter
STEPS: Final = 100  # of finding a length from what was seen of it: a contraction


@dataclass(frozen=True)
class Stalls:
    """How a stage's replicas paused.

    Attributes:
        caught: (n, width) calls that met a pause.
        rate_per_ms: visits a millisecond that one replica gets at the profile's load.
        length_ms: (k,) of the pauses that caught somebody.
    """

    caught: Bools
    rate_per_ms: float
    length_ms: Floats

    def likelier(self, factor: float) -> float:
        """How much likelier a call is to be caught at `factor` times the profile's load.

        Args:
            factor: the load, times the profile's.
        """
        weight = 1.0 / self._met(1.0)  # of those that caught nobody, too
        return float((weight @ self._met(factor)) / len(weight) / factor)

    def longer_ms(self, factor: float) -> float:
        """By how much longer those caught wait then, milliseconds: at a high load the first comes sooner.

        Args:
            factor: the load, times the profile's.
        """
        weight = self._met(factor) / self._met(1.0)
        then = (weight @ (self.length_ms - self._lead_ms(factor))) / weight.sum()
        return float(then - (self.length_ms - self._lead_ms(1.0)).mean())

    def _met(self, factor: float) -> Floats:
        """(k,): the chance that somebody comes during such a pause."""
        return np.asarray(-np.expm1(-self.rate_per_ms * factor * self.length_ms))

    def _lead_ms(self, factor: float) -> Floats:
        """(k,): mean time from its beginning until then."""
        return lead_ms(self.length_ms, self.rate_per_ms * factor)


def lead_ms(length_ms: Floats, rate_per_ms: float) -> Floats:
    """(k,): mean time from a pause's beginning until somebody comes, where somebody does.

    Args:
        length_ms: (k,) of the pauses.
        rate_per_ms: at which calls come, a Poisson process.
    """
    so_many = np.minimum(MANY, rate_per_ms * length_ms)
    return np.asarray(1.0 / rate_per_ms - length_ms / np.expm1(so_many))


def stalls_of(profile: Profile, rate_per_s: float) -> dict[str, Stalls]:
    """By stage how its replicas paused; nothing where slow calls were slow by themselves, or nobody can tell.

    Args:
        profile: with the replicas that calls went to.
        rate_per_s: requests a second behind it.
    """
    if not profile.requests:
        return {}
    starts, span_ms = _starts(profile), profile.requests / rate_per_s * 1e3
    seen = {
        stage.name: found
        for stage in profile.stages
        if (found := _seen(stage, starts[stage.name])) is not None
    }
    later, passed = (sum(getattr(found, name) for found in seen.values()) for name in ("later", "passed"))
    if later < FEWEST or passed > PASSED * later:
        return {}
    return {name: found.stalls(span_ms) for name, found in seen.items() if len(found.waited_ms)}


def _starts(profile: Profile) -> Mapping[str, Floats]:
    """By stage: (n,) moments at which requests came to it, milliseconds."""
    came = (profile.started_s - profile.started_s.min()) * 1e3
    ends = finish_times(profile.stages, {stage.name: stage.latency_ms for stage in profile.stages})
    after = {stage.name: start_times(stage, ends) for stage in profile.stages}
    return {name: came if waited is None else came + waited for name, waited in after.items()}


@dataclass(frozen=True)
class _Seen:
    """What a stage's calls show; k stalls.

    Attributes:
        caught: (n, width) long calls.
        waited_ms: (k,) by the first call of each stall.
        later: calls that came to a replica with a long call, or during its wait.
        passed: how many of them were answered before it.
        visits: of the stage.
        replicas: that took them.
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
        for _ in range(STEPS):
            length = self.waited_ms + lead_ms(length, rate)
        return Stalls(self.caught, rate, length)


def _seen(stage: StageProfile, start: Floats) -> _Seen | None:
    if stage.asked is None or not stage.replicas:
        return None
    known = (stage.asked >= 0) & ~np.isnan(stage.calls_ms) & ~stage.censored
    row, shard = np.nonzero(known)
    if not len(row):
        return None
    order = np.argsort(start[row], kind="stable")
    row, shard = row[order], shard[order]
    came, took, asked = start[row], stage.calls_ms[row, shard], stage.asked[row, shard]
    usual = float(np.quantile(took, USUAL))
    waited: list[float] = []
    later = passed = visits = 0
    for replica in range(stage.replicas):
        mine = np.flatnonzero(asked == replica)
        found = _stalled(came[mine], took[mine], usual)
        waited += [float(wait) - usual for wait in took[mine][found[0]]]
        later, passed = later + found[1], passed + found[2]
        visits += len(np.unique(row[mine]))
    caught = np.where(known, stage.calls_ms, 0.0) > LONG * usual
    return _Seen(caught, np.array(waited), later, passed, visits, stage.replicas)


def _stalled(came: Floats, took: Floats, usual: float) -> tuple[list[int], int, int]:
    """One replica, calls by arrival: the first call of each stall, those that came in stalls, and passed."""
    firsts: list[int] = []
    later = passed = 0
    until = -np.inf
    for call in np.flatnonzero(took > LONG * usual).tolist():
        if came[call] < until:
            continue
        until = float(came[call] + took[call])
        firsts.append(call)
        begin, end = np.searchsorted(came, [came[call], until - usual], side="left")
        later += int(end - begin) - 1  # itself
        passed += int((came[begin:end] + took[begin:end] < until - usual).sum())
    return firsts, later, passed
