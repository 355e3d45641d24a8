"""Pauses of replicas in a sizing: at any number of replicas as many calls wait as in an exact simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.capacity import StageSize
from kwiken.allocator.capacity.pauses import pauses_of, recognised, without_pauses
from kwiken.allocator.capacity.supply import Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.allocator.capacity.verification import RESAMPLES, resampled_p99, verify
from kwiken.model.profile import Profile, StageProfile, part_of
from kwiken.tail.queueing.load import LoadModel, QueueSettings, load_model
from tests.support.models.pauses import PAUSE_MS, PAUSED, REPLICAS, pausing_profile

RATE_PER_S = 60.0
RECORDED_S = 1500.0


@pytest.fixture(scope="module")
def learned() -> Profile:
    return pausing_profile(RATE_PER_S, RECORDED_S, 1)


def model_of(profile: Profile) -> LoadModel:
    return load_model(profile, QueueSettings(rate_per_s=RATE_PER_S))


def trials_of(profile: Profile) -> StageTrials:
    return StageTrials(model_of(profile), RATE_PER_S, Supply(["a"], {}), seed=0, requests=20_000)


def two_stages(profile: Profile, other: StageProfile) -> Profile:
    """A profile whose second stage is another one, called beside the first."""
    return replace(
        profile,
        stages=(profile.stages[0], replace(other, name="b")),
        latency_ms=np.maximum(profile.latency_ms, other.calls_ms[:, 0]),
    )


@pytest.mark.parametrize("count", [1, 2, REPLICAS, 6])
def test_as_many_calls_wait_as_in_an_exact_simulation(learned: Profile, count: int) -> None:
    """Learned with three replicas, true of another number that pause as often each."""
    truth = pausing_profile(RATE_PER_S, RECORDED_S, 2, count=count)
    trial = trials_of(learned).trial(0, StageSize(count))
    assert trial is not None
    share = float((trial.latency_ms > PAUSE_MS / 2).mean())
    assert share == pytest.approx(float((truth.latency_ms > PAUSE_MS / 2).mean()), rel=0.3)


def test_the_check_of_the_whole_service_agrees_with_the_trial(learned: Profile) -> None:
    trials = trials_of(learned)
    for size in (StageSize(1), StageSize(REPLICAS)):
        trial, checked = trials.trial(0, size), verify(trials, (size,), seed=3)
        assert trial is not None
        assert checked is not None
        slow = [(latency_ms > PAUSE_MS / 2).mean() for latency_ms in (trial.latency_ms, checked.latency_ms)]
        assert slow[1] == pytest.approx(slow[0], rel=0.25)


def test_pauses_are_learned_as_often_and_as_long_as_they_are(learned: Profile) -> None:
    pauses = pauses_of(model_of(learned))["a"].pauses
    assert pauses.mean_ms == pytest.approx(PAUSE_MS, rel=0.1)
    assert pauses.per_ms * PAUSE_MS == pytest.approx(PAUSED / (1 - PAUSED), rel=0.25)


def test_a_stage_without_a_recorded_pause_gets_a_share_of_those_of_the_others() -> None:
    """One pause of the average stage beside what was seen: less in a long recording than in a short one."""
    rates = []
    for seconds in (900.0, 2700.0):
        profile = pausing_profile(RATE_PER_S, seconds, 5)
        quiet = pausing_profile(RATE_PER_S, seconds, 6, paused=0.0).stages[0]
        found = pauses_of(model_of(two_stages(profile, quiet)))
        own, other = found["a"].pauses, found["b"].pauses
        assert 0 < other.per_ms < own.per_ms
        assert set(other.length.values) == set(own.length.values)
        assert found["b"].evidence == 1.0 < found["a"].evidence
        rates.append(other.per_ms)
    assert rates[1] < rates[0] / 1.5


def test_where_nothing_paused_nothing_is_simulated() -> None:
    assert pauses_of(model_of(pausing_profile(RATE_PER_S, 100.0, 3, paused=0.0))) == {}


def test_calls_that_met_a_pause_get_the_rest_of_another_call(learned: Profile) -> None:
    model = model_of(learned)
    found = without_pauses(model, pauses_of(model), seed=0)
    caught = model.stalls["a"].caught
    before, after = model.stages["a"].rest_ms, found.stages["a"].rest_ms
    assert found.stalls == {}
    assert np.array_equal(before[~caught], after[~caught])
    assert set(after[caught]) <= set(before[~caught])
    assert after[caught].max() < before[caught].min()


def test_without_simulated_pauses_calls_keep_theirs(learned: Profile) -> None:
    model = model_of(learned)
    found = without_pauses(model, {}, seed=0)
    assert found.stalls == model.stalls
    assert np.array_equal(found.stages["a"].rest_ms, model.stages["a"].rest_ms)


def test_resampled_recordings_have_other_pauses_around_the_expected_ones(learned: Profile) -> None:
    found = pauses_of(model_of(learned))["a"]
    rng = np.random.default_rng(0)
    drawn = [found.resampled(rng).pauses for _ in range(400)]
    rates = np.array([pauses.per_ms for pauses in drawn]) / found.pauses.per_ms
    assert rates.mean() == pytest.approx(1.0, abs=0.02)
    assert rates.std() == pytest.approx(found.evidence**-0.5, rel=0.15)
    assert np.mean([pauses.mean_ms for pauses in drawn]) == pytest.approx(found.pauses.mean_ms, rel=0.02)


def test_a_promise_from_few_requests_is_less_sure(learned: Profile) -> None:
    widths = []
    for requests in (1500, learned.requests):
        trials = trials_of(part_of(learned, np.arange(requests)))
        resampled_ms = resampled_p99(trials, (StageSize(2),), seed=1)
        assert resampled_ms.shape == (RESAMPLES,)
        widths.append(float(np.subtract(*np.quantile(resampled_ms, (0.9, 0.1)))))
    assert widths[0] > 1.5 * widths[1]


def test_few_calls_that_waited_together_are_enough_for_a_sizing() -> None:
    """Two calls waited with slow ones: no pauses at the recorded size, and pauses for other sizes."""
    model = next(
        model
        for seed in range(50)
        if not (model := model_of(pausing_profile(RATE_PER_S, 300.0, seed))).stalls
        and recognised(model).stalls
    )
    assert pauses_of(model) == {}
    assert set(trials_of(model.profile).pauses) == {"a"}
