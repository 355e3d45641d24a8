"""Check of chosen sizes in a simulation of the whole service: requests, pauses and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from kwiken.allocator.capacity import verification
from kwiken.allocator.capacity.recorded_requests import RecordedHalves
from kwiken.allocator.capacity.supply import StageSize, Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.allocator.capacity.verification import (
    CheckedRecording,
    Verified,
    resampled_p99,
    verify,
)
from kwiken.base.arrays import Floats
from kwiken.model.profile.profile import Profile
from kwiken.tail.queueing.load.decompose import load_model
from kwiken.tail.queueing.load.stalls import Stalls
from kwiken.tail.queueing.simulator.race import UnstableStageError
from kwiken.tail.queueing.simulator.station import Station
from tests.support.models.pauses import pausing_profile
from tests.support.models.stragglers import straggling_profile

PROFILE = straggling_profile(requests=300)
NAMES = [stage.name for stage in PROFILE.stages]
RATE_PER_S = 60.0


def trials_of(profile: Profile, rate_per_s: float = 100.0) -> StageTrials:
    names = [stage.name for stage in profile.stages]
    return StageTrials(load_model(profile), rate_per_s, Supply(names, {}), seed=0, requests=200)


@pytest.mark.parametrize(("width", "requests"), [(1, 40_000), (13, 17_857), (59, 5000)])
def test_the_number_of_requests_follows_from_a_bound_on_calls(
    width: int, requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of a million calls, of which a request makes one at the second stage."""
    first, *rest = PROFILE.stages
    calls_ms = np.repeat(first.calls_ms, width, axis=1)
    wide = replace(first, calls_ms=calls_ms, censored=np.zeros(calls_ms.shape, np.bool_), busy_ms=0.1)
    trials = trials_of(replace(PROFILE, stages=(wide, *rest)))
    asked: list[tuple[int, int]] = []

    def overloaded(stations: Sequence[Station], arrivals: Floats, *, warm_up: int, **_: object) -> None:
        assert [station.name for station in stations] == NAMES
        asked.append((len(arrivals), warm_up))
        raise UnstableStageError("fetch")

    monkeypatch.setattr(verification, "simulate_queues", overloaded)
    assert verify(trials, (StageSize(3), StageSize(3)), seed=1) is None
    assert verify(trials, (StageSize(3), StageSize(3)), seed=1, most=700) is None
    assert asked == [(requests + requests // 10, requests // 10), (770, 70)]


def test_a_stage_without_replicas_is_played_back_and_never_busy() -> None:
    first, second = PROFILE.stages
    unknown = replace(first, busy_ms=None, busy_variation=None, replicas=None)
    trials = trials_of(replace(PROFILE, stages=(unknown, second)))
    checked = verify(trials, (StageSize(0), StageSize(3)), seed=1, most=5000)
    assert checked is not None
    assert checked.utilisation["fetch"] == 0.0
    assert checked.utilisation["rank"] == pytest.approx(0.6 / 3, rel=0.1)
    assert checked.latency_ms.min() > first.calls_ms.min()


def test_calls_that_met_a_pause_are_as_rare_at_another_rate_as_the_load_model_says() -> None:
    """Load does not act on the first stage, so its pauses stay parts of recorded calls.

    Pauses are as many in an hour at any rate, so that fewer of the calls meet one where there are more calls.
    """
    first, second = PROFILE.stages
    caught = (np.arange(300) % 10 == 0)[:, None]
    paused = replace(
        first, calls_ms=np.where(caught, 1000.0, 5.0), busy_ms=None, busy_variation=None, replicas=None
    )
    stalls = Stalls(caught, 0.02, np.full(30, 100.0))
    model = replace(load_model(replace(PROFILE, stages=(paused, second))), stalls={"fetch": stalls})
    fewer = stalls.probability_factor(4.0)
    assert fewer < 0.5
    for factor, expected in ((1.0, 0.1), (4.0, 0.1 * fewer / (0.1 * fewer + 0.9))):
        trials = StageTrials(
            model,
            factor * model.rate_per_s,
            Supply(NAMES, {}),
            seed=0,
            requests=8000,
            halves=RecordedHalves.same(model.profile),
        )
        trial = trials.trial(0, StageSize(0))
        checked = verify(trials, (StageSize(0), StageSize(6)), seed=1, most=8000)
        assert trial is not None
        assert checked is not None
        shares = [float((one.latency_ms > 500.0).mean()) for one in (trial, checked)]
        assert shares == pytest.approx([expected] * 2, rel=0.15)


def test_a_check_pauses_replicas_as_its_recording_says() -> None:
    trials = trials_of(pausing_profile(RATE_PER_S, 50.0, 1), RATE_PER_S)
    known = trials.pauses["a"]
    more = replace(known, pauses=replace(known.pauses, per_ms=20.0 * known.pauses.per_ms))
    mean_ms = []
    for pauses in (known, more):
        recording = CheckedRecording(trials.halves.checked, {"a": pauses})
        checked = verify(trials, (StageSize(3),), seed=1, recording=recording, most=2000)
        assert checked is not None
        mean_ms.append(checked.latency_ms.mean())
    assert mean_ms[1] > 2 * mean_ms[0]


def test_a_promise_is_resampled_from_other_recordings_each_with_draws_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where copies overload a stage, the p99 is infinite."""
    trials = trials_of(pausing_profile(RATE_PER_S, 50.0, 1), RATE_PER_S)
    assert set(trials.pauses) == {"a"}
    asked: list[tuple[int, int, CheckedRecording]] = []

    def checked(
        _: StageTrials, sizes: object, *, seed: int, recording: CheckedRecording, most: int
    ) -> Verified | None:
        del sizes
        asked.append((seed, most, recording))
        return None if len(asked) == 3 else cast("Verified", SimpleNamespace(p99_ms=float(len(asked))))

    monkeypatch.setattr(verification, "verify", checked)
    found = resampled_p99(trials, (StageSize(2),), seed=0)
    assert found.tolist() == [1.0, 2.0, np.inf, *range(4, 26)]
    seeds, most, recordings = zip(*asked, strict=True)
    assert len(set(seeds) - {0}) == 25
    assert set(most) == {8000}
    blocks = [recording.requests[:: trials.model.profile.requests // 20] for recording in recordings]
    assert len({tuple(one) for one in blocks}) == 25
    rates = [recording.pauses["a"].pauses.per_ms for recording in recordings]
    assert min(rates) < trials.pauses["a"].pauses.per_ms < max(rates)
    again = resampled_p99(trials, (StageSize(2),), seed=1000)
    assert len(again) == 25
    assert not {seed for seed, _, _ in asked[25:]} & set(seeds)
