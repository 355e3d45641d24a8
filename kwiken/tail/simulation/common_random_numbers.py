"""Paired simulation: many allocations on the same requests, copies and coins (common random numbers).

Two allocations give different latencies only where their policies differ. This shows small differences of
high percentiles, which the noise of independent draws would hide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.latency import start_times
from kwiken.model.plan.plan import StagePlan
from kwiken.model.plan.rounding import rounded
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.curve import Curve
from kwiken.tail.simulation.stage_replay import LateCalls, StageReplay

Rows = NDArray[np.int64]
Choice = tuple[float, float]  # share of a stage's calls to reissue, and the coin's probability

ROWS = 10_000  # requests that allocations are compared on, roughly
NEAR_P99 = (0.985, 0.995)  # quantiles that `smooth_p99` averages between


def smooth_p99(latency_ms: Floats) -> float:
    """Mean of the percentiles from 98.5 to 99.5, milliseconds: p99 without the jumps of one order statistic.

    A time-out beyond a stage's p99 does not move that p99, so p99 itself gives a search no slope there.

    Args:
        latency_ms: (n,) latencies, milliseconds.
    """
    count = len(latency_ms)
    first = min(int(NEAR_P99[0] * count), count - 1)
    last = max(first + 1, int(np.ceil(NEAR_P99[1] * count)))
    if last >= count:
        return float(np.partition(latency_ms, first)[first:].mean())
    return float(np.partition(latency_ms, (first, last))[first:last].mean())


def compared_rows(profile: Profile) -> Rows:
    """(n,): indices of requests to compare allocations on: about `ROWS`, each as often as the others."""
    rows = np.repeat(np.arange(profile.requests), max(1, ROWS // max(1, profile.requests)))
    return rows[:: max(1, len(rows) // ROWS)]


class PairedSimulation:
    """Simulated requests of a profile, with a copy and a coin drawn once for every call.

    On the rows of an expectation (`expected_rows`) and with its seed, latencies are those of the expectation.

    Args:
        curves: curve of each stage that may be reissued; a copy has its distribution and correlation.
        rows: (n,) indices of requests.

    Raises:
        InputError: when there are no rows.
    """

    def __init__(
        self,
        profile: Profile,
        curves: Mapping[str, Curve],
        rows: Rows,
        *,
        seed: int = 0,
    ) -> None:
        if not len(rows):
            raise InputError("there are no requests to compare allocations on")
        self._stages = profile.stages
        replays = {
            stage.name: StageReplay(
                stage,
                0.0,
                np.random.default_rng([seed, i]),
                copy_correlation=_given(curves.get(stage.name)),
                races=stage.name in curves,
            )
            for i, stage in enumerate(profile.stages)
        }
        self._races = {name: _StageRaces(replays[name], curve, rows) for name, curve in curves.items()}
        inner = {parent for stage in profile.stages for parent in stage.after}
        self._sinks = [stage.name for stage in profile.stages if stage.name not in inner]
        self._below = _descendants(profile.stages)
        self._alone = {
            name: replay.alone(rows, np.empty(len(rows)))
            for name, replay in replays.items()
            if name not in self._races
        }
        self._choices: dict[str, Choice] = {}
        self._ends: dict[str, Floats] = {}
        self.set_choices({})

    def set_choices(self, choices: Mapping[str, Choice]) -> Floats:
        """Set the choices that `with_choices` starts from.

        Args:
            choices: by stage: share of calls and coin; a stage without one gets no copies.

        Returns:
            (n,) latencies of the requests, milliseconds.
        """
        before, self._choices = self._choices, dict(choices)
        self._run(self._ends, choices, {name for name, _ in before.items() ^ choices.items()})
        return self._whole(self._ends)

    def with_choices(self, choices: Mapping[str, Choice]) -> Floats:
        """(n,): latencies of the requests, milliseconds, with some choices changed.

        Only the stages changed and their descendants are computed again.

        Args:
            choices: by stage that changes: share of calls and coin.
        """
        ends = dict(self._ends)
        self._run(ends, {**self._choices, **choices}, choices)
        return self._whole(ends)

    def _run(self, ends: dict[str, Floats], choices: Mapping[str, Choice], changed: Collection[str]) -> None:
        touched = set(changed).union(*(self._below[name] for name in changed))
        for stage in self._stages:
            if stage.name in ends and stage.name not in touched:
                continue
            start = start_times(stage, ends)
            latency = self._latency(stage.name, choices.get(stage.name, (0.0, 1.0)))
            ends[stage.name] = latency if start is None else latency + start

    def _latency(self, name: str, choice: Choice) -> Floats:
        return self._races[name].latency(choice) if name in self._races else self._alone[name]

    def _whole(self, ends: Mapping[str, Floats]) -> Floats:
        return np.asarray(np.maximum.reduce([ends[name] for name in self._sinks]))


def _given(curve: Curve | None) -> float | None:
    """Correlation of a curve's copies; None where more than that is known of them."""
    if curve is None:
        return 0.0
    return None if curve.useless else curve.correlation


class _StageRaces:
    """Races of one stage in the chosen requests, by share of calls and coin."""

    def __init__(self, replay: StageReplay, curve: Curve, rows: Rows) -> None:
        self._replay, self._curve, self._rows = replay, curve, rows
        self._last: tuple[Choice, Floats] | None = None
        self._late: LateCalls | None = None

    def latency(self, choice: Choice) -> Floats:
        """(n,): latency of the slowest call, ms, under a choice; the last result is cached."""
        if self._last is None or self._last[0] != choice:
            policy = self._curve.policy(choice[0], coin=choice[1])
            self._last = (choice, self._under(None if policy is None else rounded(policy)))
        return self._last[1]

    def _under(self, policy: Reissue | None) -> Floats:
        """(n,): latency under a policy of one copy a call, milliseconds; only late calls are raced."""
        if policy is None:
            return self._replay.alone(self._rows, np.empty(len(self._rows)))
        if self._late is None or policy.after_ms < self._late.from_ms:
            self._late = self._replay.late_calls(self._rows, policy.after_ms)
        if self._late is None:
            return self._replay.play(self._rows, StagePlan(reissue=policy), None).latency_ms
        return self._replay.raced_late(self._rows, self._late, policy)


def _descendants(stages: Sequence[StageProfile]) -> dict[str, set[str]]:
    """By stage: names of all stages that directly or indirectly follow the stage."""
    below: dict[str, set[str]] = {stage.name: set() for stage in stages}
    for stage in reversed(stages):
        for parent in stage.after:
            below[parent] |= {stage.name} | below[stage.name]
    return below
