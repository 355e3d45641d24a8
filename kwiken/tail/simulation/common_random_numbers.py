"""Paired simulation: many allocations on the same requests, copies and coins (common random numbers).

Two allocations give different latencies only where their policies differ. This shows small differences of
high percentiles, which the noise of independent draws would hide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Bools, Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import end_to_end, start_times
from kwiken.model.profile import Profile, StageProfile, complete_calls
from kwiken.tail.curves import Curve, copy_generator, correlated_copies

Rows = NDArray[np.int64]
Choice = tuple[float, float]  # share of a stage's calls to reissue, and the coin's probability
Risk = Callable[[Floats, int], float]  # function of the slowest latencies and the number of all requests

ROWS = 10_000  # upper bound, roughly, of the requests that a search uses
NEAR_P99 = (0.985, 0.995)  # quantiles that `smooth_p99` averages between
CVAR_QUANTILE = 0.99
TAIL = 1 - NEAR_P99[0]  # share of the slowest requests that every risk depends on


def smooth_p99(latency_ms: Floats, of: int | None = None) -> float:
    """Mean of the percentiles from 98.5 to 99.5, milliseconds: p99 without the jumps of one order statistic.

    A time-out beyond a stage's p99 does not move that p99, so p99 itself gives a search no slope there.

    Args:
        latency_ms: (k,) latencies, milliseconds, of at least the slowest 1.5% of the requests.
        of: number of all requests, `k` or more; None for `k`.
    """
    return _mean_between(latency_ms, *NEAR_P99, of=of)


def cvar(latency_ms: Floats, of: int | None = None) -> float:
    """Mean of the slowest 1% of latencies, milliseconds (conditional value at risk); see `smooth_p99`."""
    return _mean_between(latency_ms, CVAR_QUANTILE, 1.0, of=of)


def _mean_between(latency_ms: Floats, low: float, high: float, *, of: int | None) -> float:
    count = len(latency_ms) if of is None else of
    left_out = count - len(latency_ms)
    first = max(0, min(int(low * count), count - 1) - left_out)
    last = max(first + 1, int(np.ceil(high * count)) - left_out)
    if last >= len(latency_ms):
        return float(np.partition(latency_ms, first)[first:].mean())
    return float(np.partition(latency_ms, (first, last))[first:last].mean())


RISKS: Mapping[str, Risk] = {"p99": smooth_p99, "cvar": cvar}


class PairedSimulation:
    """Simulated requests of a profile, with a copy and a coin drawn once for every call.

    Args:
        profile: profile of the service.
        curves: curve of each stage that may be reissued; a copy has its distribution and correlation.
        rows: (n,) indices of requests; of more than `ROWS` an even subsample is used.
        learned: curves that the policies are taken from, learned on other requests; None for `curves`.
        seed: seed of the copies and coins.
        tail: share of the slowest requests that the risk depends on, above 0 and at most 1. Requests that no
            choice can bring among them are left out.

    Attributes:
        requests: number of requests, including those left out.

    Raises:
        InputError: when there are no rows.
    """

    def __init__(
        self,
        profile: Profile,
        curves: Mapping[str, Curve],
        rows: Rows,
        *,
        learned: Mapping[str, Curve] | None = None,
        seed: int = 0,
        tail: float = 1.0,
    ) -> None:
        if not len(rows):
            raise InputError("there are no requests to compare allocations on")
        self._rows = rows[:: max(1, len(rows) // ROWS)]
        self.requests = len(self._rows)
        self._stages = profile.stages
        policies = curves if learned is None else learned
        self._races = {
            stage.name: _StageRaces(
                stage, curves[stage.name], policies[stage.name], self._rows, copy_generator(seed, i)
            )
            for i, stage in enumerate(profile.stages)
            if stage.name in curves and stage.name in policies
        }
        inner = {parent for stage in profile.stages for parent in stage.after}
        self._sinks = [stage.name for stage in profile.stages if stage.name not in inner]
        self._below = _descendants(profile.stages)
        self._alone = {
            stage.name: stage.latency_ms[self._rows]
            for stage in profile.stages
            if stage.name not in self._races
        }
        self._choices: dict[str, Choice] = {}
        self._ends: dict[str, Floats] = {}
        if tail < 1:
            self._keep_slow(tail)
        self.set_choices({})

    def _keep_slow(self, tail: float) -> None:
        """Leave out requests that are never among the slowest, whatever the choices.

        A copy at once is the best that a choice can do for a call, so the k-th slowest latency under any
        choice is at least the k-th slowest with copies at once. No choice makes a request slower than it is
        without copies. So a request below that bound without copies is never among the k slowest.
        """
        count = min(self.requests, int(np.ceil(tail * self.requests)) + 1)
        least = self._end_to_end({name: stage.fastest for name, stage in self._races.items()})
        slow = self._end_to_end({}) >= np.partition(least, self.requests - count)[self.requests - count]
        for stage in self._races.values():
            stage.keep(slow)
        self._alone = {name: latency[slow] for name, latency in self._alone.items()}

    def _end_to_end(self, latency: Mapping[str, Floats]) -> Floats:
        """(n,): latencies of the requests, ms, with given latencies of some stages; others without copies."""
        whole = {
            stage.name: latency.get(stage.name, self._latency(stage.name, (0.0, 1.0)))
            for stage in self._stages
        }
        return end_to_end(self._stages, whole)

    def set_choices(self, choices: Mapping[str, Choice]) -> Floats:
        """Set the choices that `with_choices` starts from.

        Args:
            choices: by stage: share of calls and coin; a stage without one gets no copies.

        Returns:
            (k,) latencies of the requests, milliseconds.
        """
        self._choices = dict(choices)
        self._ends = {}
        self._run(self._ends, self._choices, self._stages)
        return self._whole(self._ends)

    def with_choices(self, choices: Mapping[str, Choice]) -> Floats:
        """(k,): latencies of the requests, milliseconds, with some choices changed.

        Only the stages changed and their descendants are computed again.

        Args:
            choices: by stage that changes: share of calls and coin.
        """
        touched = set(choices).union(*(self._below[name] for name in choices))
        ends = dict(self._ends)
        stages = [stage for stage in self._stages if stage.name in touched]
        self._run(ends, {**self._choices, **choices}, stages)
        return self._whole(ends)

    def _run(
        self, ends: dict[str, Floats], choices: Mapping[str, Choice], stages: Sequence[StageProfile]
    ) -> None:
        for stage in stages:
            start = start_times(stage, ends)
            latency = self._latency(stage.name, choices.get(stage.name, (0.0, 1.0)))
            ends[stage.name] = latency if start is None else latency + start

    def _latency(self, name: str, choice: Choice) -> Floats:
        return self._races[name].latency(choice) if name in self._races else self._alone[name]

    def _whole(self, ends: Mapping[str, Floats]) -> Floats:
        return np.asarray(np.maximum.reduce([ends[name] for name in self._sinks]))


class _StageRaces:
    """Calls of one stage, each with its copy and its coin."""

    def __init__(
        self, stage: StageProfile, curve: Curve, learned: Curve, rows: Rows, rng: np.random.Generator
    ) -> None:
        self._calls = complete_calls(stage.without_lag(), curve.distribution, rng)[rows]
        lag_ms = stage.lag_ms if stage.lag_ms is not None else np.zeros(stage.calls_ms.shape)
        self._lag = lag_ms[rows]
        self._copies = correlated_copies(
            curve.distribution, self._calls, rng.standard_normal(self._calls.shape), curve.correlation
        )
        self._coins = rng.random(self._calls.shape)
        self._learned = learned
        self._last: tuple[Choice, Floats] | None = None

    @property
    def fastest(self) -> Floats:
        """(n,): latency of the slowest call, ms, if every call had its copy at once."""
        return self._slowest(np.minimum(self._calls, self._copies))

    def keep(self, rows: Bools) -> None:
        """Drop the requests that are False in `rows`, (n,)."""
        self._calls, self._copies, self._coins = self._calls[rows], self._copies[rows], self._coins[rows]
        self._lag = self._lag[rows]
        self._last = None

    def latency(self, choice: Choice) -> Floats:
        """(n,): latency of the slowest call, ms, under a choice; the last result is cached."""
        if self._last is None or self._last[0] != choice:
            self._last = (choice, self._raced(choice))
        return self._last[1]

    def _raced(self, choice: Choice) -> Floats:
        policy = self._learned.policy(choice[0], coin=choice[1])
        calls = self._calls
        if policy is not None:
            sent = (calls > policy.after_ms) & (self._coins < policy.probability)
            calls = np.where(sent, np.minimum(calls, policy.after_ms + self._copies), calls)
        return self._slowest(calls)

    def _slowest(self, calls: Floats) -> Floats:
        return np.asarray(np.fmax.reduce(calls + self._lag, axis=1, initial=0.0))


def _descendants(stages: Sequence[StageProfile]) -> dict[str, set[str]]:
    """By stage: names of all stages that directly or indirectly follow the stage."""
    below: dict[str, set[str]] = {stage.name: set() for stage in stages}
    for stage in reversed(stages):
        for parent in stage.after:
            below[parent] |= {stage.name} | below[stage.name]
    return below
