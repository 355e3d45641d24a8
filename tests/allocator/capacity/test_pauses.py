"""Pauses of replicas in a sizing: at any number of replicas as many calls wait as in an exact simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.capacity.pauses import StagePauses, observed_ms, pauses_of, recognised, without_pauses
from kwiken.allocator.capacity.supply import StageSize, Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.allocator.capacity.verification import RESAMPLES, resampled_p99, verify
from kwiken.model.profile.distribution import EmpiricalDistribution
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of
from kwiken.tail.queueing.load.decompose import QueueSettings, load_model
from kwiken.tail.queueing.load.stage_model import LoadModel
from kwiken.tail.queueing.load.stalls import Stalls
from kwiken.tail.queueing.simulator.pauses import Pauses
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


SPAN_MS = 1000 / RATE_PER_S * 1e3  # time of a recording of 1,000 requests


@pytest.fixture(scope="module")
def three() -> LoadModel:
    """Pauses of 300, 100 and 200 ms at the first stage, of 400 at the third; the second has none.

    Nobody knows which replica of the third stage was asked.
    """
    profile = pausing_profile(RATE_PER_S, 1000 / RATE_PER_S, 5, paused=0.0)
    first = profile.stages[0]
    others = (replace(first, name="b"), replace(first, name="c", asked=None, replica_names=()))
    model = model_of(replace(profile, stages=(first, *others)))
    caught = np.zeros((1000, 1), np.bool_)
    caught[::100] = True
    return replace(
        model,
        stalls={
            "a": Stalls(caught, 0.02, np.array([300.0, 100.0, 200.0])),
            "c": Stalls(caught, 0.02, np.array([400.0])),
        },
    )


def test_replicas_are_watched_where_it_is_known_which_one_was_asked(three: LoadModel) -> None:
    assert observed_ms(three) == {"a": pytest.approx(3 * SPAN_MS), "b": pytest.approx(3 * SPAN_MS)}
    played_back = replace(three.stages["a"], station=replace(three.stages["a"].station, replicas=None))
    assert set(observed_ms(replace(three, stages={**three.stages, "a": played_back}))) == {"b"}


def test_pauses_of_all_stages_are_expected_at_each_beside_its_own(three: LoadModel) -> None:
    """The average stage has one pause beside the recorded ones, and one was never seen, as long as the longest.

    Of pauses of 100 ms, in which two calls come on average, 1 - exp(-2) catch a call; and so on.
    """
    own = [1 / (1 - np.exp(-0.02 * length_ms)) for length_ms in (100.0, 200.0, 300.0)]
    expected = [own[0], own[1], own[2] + 1.0]
    shared = [one / sum(expected) for one in expected]
    mean_ms = 6 * SPAN_MS / sum(expected)
    assert recognised(three) is three
    found = pauses_of(three)
    assert set(found) == {"a", "b"}
    for name, weights, evidence in (
        ("a", [one + share for one, share in zip(own, shared, strict=True)], 4.0),
        ("b", shared, 1.0),
    ):
        pauses = found[name].pauses
        assert pauses.per_ms == pytest.approx(sum(weights) / (3 * SPAN_MS + mean_ms))
        assert pauses.length.values.tolist() == [100.0, 200.0, 300.0]
        assert pauses.length.mass == pytest.approx([one / sum(weights) for one in weights])
        assert found[name].evidence == evidence


def test_calls_of_each_stage_lose_their_pauses_by_draws_of_their_own(three: LoadModel) -> None:
    """Rests of requests that made no call stay unknown; the stage whose pauses are kept stays as it is."""
    caught = three.stalls["a"].caught
    rest_ms = np.where(caught, 500.0, np.linspace(1.0, 2.0, 1000)[:, None])
    rest_ms[1::100] = np.nan
    stages = {name: replace(stage, rest_ms=rest_ms) for name, stage in three.stages.items()}
    model = replace(three, stages=stages, stalls=dict.fromkeys("abc", three.stalls["a"]))
    found = without_pauses(model, ["a", "b"], seed=0)
    assert set(found.stalls) == {"c"}
    assert found.stages["c"] is model.stages["c"]
    for name in "ab":
        after = found.stages[name].rest_ms
        assert np.array_equal(after[~caught], rest_ms[~caught], equal_nan=True)
        assert 1.0 <= after[caught].min() < after[caught].max() <= 2.0
        rest = found.stages[name].station.rest
        assert rest is not None
        assert rest.mean_ms == pytest.approx(np.nanmean(after))
    drawn = [found.stages[name].rest_ms[caught].tolist() for name in "ab"]
    drawn.append(without_pauses(model, ["a"], seed=1).stages["a"].rest_ms[caught].tolist())
    assert drawn[0] != drawn[1]
    assert drawn[0] != drawn[2]


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


def test_resampled_pauses_are_those_of_a_bayesian_bootstrap() -> None:
    """Shares of 99 pauses are uniform over what is possible, so that their squares have a mean sum of 2/100."""
    values = np.arange(1.0, 100.0)
    known = StagePauses(Pauses(0.01, EmpiricalDistribution(values)), 4.0)
    rng = np.random.default_rng(0)
    drawn = [known.resampled(rng) for _ in range(300)]
    shares = np.array([one.pauses.length.mass for one in drawn])
    assert shares.sum(axis=1) == pytest.approx(np.ones(300))
    assert (shares**2).sum(axis=1).mean() == pytest.approx(0.02, rel=0.05)
    assert all(one.pauses.length.values.tolist() == values.tolist() for one in drawn)
    assert {one.evidence for one in drawn} == {4.0}
    rates = np.array([one.pauses.per_ms for one in drawn])
    assert (rates.mean(), rates.std()) == pytest.approx((0.01, 0.005), rel=0.1)  # a gamma of shape 4


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
