"""Trials of one stage's sizes: how many requests, which copies, and what they do at which load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from kwiken.allocator.capacity.supply import StageSize, Supply
from kwiken.allocator.capacity.trials import (
    FIXED_LEVEL,
    LEVELS,
    MAX_BUSY,
    AtSpeed,
    StageTrials,
    Trial,
    _policies,
)
from kwiken.base.arrays import Floats
from kwiken.base.jobs import Job, one_by_one
from kwiken.model.service.stage import Reissue
from kwiken.tail.curves.curve import MIN_CALLS_FOR_CURVE
from kwiken.tail.queueing.load.decompose import QueueSettings, load_model
from kwiken.tail.queueing.simulator.calls import SimulatedCalls
from kwiken.tail.queueing.simulator.service_times import LogNormal
from kwiken.tail.queueing.simulator.stage import serve
from kwiken.tail.queueing.simulator.station import Station
from tests.support.models.stragglers import straggling_profile

RATE = 100.0
MODEL = load_model(straggling_profile(requests=1000))
NAMES = list(MODEL.stages)


def trials_of(*, rate_per_s: float = RATE, requests: int | None = 1000, seed: int = 0) -> StageTrials:
    return StageTrials(MODEL, rate_per_s, Supply(NAMES, {}), seed=seed, requests=requests)


@pytest.fixture(scope="module")
def trials() -> StageTrials:
    return trials_of()


def test_the_fewest_replicas_are_nine_tenths_busy_at_most() -> None:
    """Work of 4 and 6 ms a call: 0.4 and 0.6 cores for each 100 requests a second."""
    for rate_per_s in (20.0, 100.0, 224.0, 226.0, 450.0, 1000.0):
        trials = trials_of(rate_per_s=rate_per_s)
        for stage, work_ms in enumerate((4.0, 6.0)):
            busy = work_ms * rate_per_s / 1e3
            assert trials.busy_cores(stage, 0) == pytest.approx(busy, rel=0.02)
            assert trials.fewest(stage, 0) == max(1, int(np.ceil(trials.busy_cores(stage, 0) / 0.9)))


def test_replicas_that_are_just_as_busy_as_allowed_are_enough(trials: StageTrials) -> None:
    rate_per_s = 1.8 / trials.busy_cores(0, 0) * RATE
    exact = trials_of(rate_per_s=rate_per_s, requests=300)
    assert exact.busy_cores(0, 0) == pytest.approx(1.8, abs=1e-14)
    assert exact.fewest(0, 0) == 2
    trial = exact.trial(0, StageSize(2))
    assert trial is not None
    assert trial.utilisation == pytest.approx(MAX_BUSY, abs=1e-12)


def test_requests_to_fill_the_queues_come_on_top_and_do_not_count(trials: StageTrials) -> None:
    assert (trials.requests, trials.warm_up) == (1000, 100)
    trial = trials.trial(0, StageSize(2))
    assert trial is not None
    assert trial.latency_ms.shape == (1100,)


@pytest.mark.parametrize(("width", "expected"), [(1, 10_000), (14, 3571), (40, 3000)])
def test_the_number_of_requests_follows_from_a_bound_on_calls(width: int, expected: int) -> None:
    profile = straggling_profile(requests=300)
    first, *rest = profile.stages
    calls_ms = np.repeat(first.calls_ms, max(1, width - 1), axis=1)
    wide = replace(first, calls_ms=calls_ms, censored=np.zeros(calls_ms.shape, np.bool_), busy_ms=0.1)
    model = load_model(replace(profile, stages=(wide, *rest)))
    assert model.calls_per_request == pytest.approx(max(1, width - 1) + 1)
    trials = StageTrials(model, RATE, Supply(NAMES, {}), seed=0)
    assert trials.requests == expected


def test_more_copies_take_their_share_and_cut_the_tail_of_stragglers(trials: StageTrials) -> None:
    plain = trials.trial(0, StageSize(4))
    assert plain is not None
    assert (plain.policy, plain.copies) == (None, 0.0)
    assert plain.extra_load == pytest.approx(0.0, abs=1e-9)
    tails = [np.quantile(plain.latency_ms, 0.99)]
    for level in (2, 5, 9):
        trial = trials.trial(0, StageSize(4, 0, level))
        assert trial is not None
        assert trial.policy is not None
        assert trial.policy.fraction == pytest.approx(LEVELS[level], rel=0.05)
        assert trial.copies == pytest.approx(LEVELS[level], rel=0.35)
        assert 0 < trial.extra_load < 2 * LEVELS[level]
        assert trial.calls_ms is None
        busy = trials.busy_cores(0, 0) * (1 + trial.extra_load) / 4
        assert trial.utilisation == pytest.approx(busy)
        tails.append(np.quantile(trial.latency_ms, 0.99))
    assert tails == sorted(tails, reverse=True)


def test_more_replicas_wait_less_and_work_as_long(trials: StageTrials) -> None:
    found = [trials.trial(1, StageSize(count)) for count in (1, 2, 4, 16)]
    latencies = [one.latency_ms.mean() for one in found if one is not None]
    assert latencies == sorted(latencies, reverse=True)
    busy = [
        one.utilisation * count for one, count in zip(found, (1, 2, 4, 16), strict=True) if one is not None
    ]
    assert busy == pytest.approx([busy[0]] * 4)


def test_copies_that_have_no_policy_are_no_copies(trials: StageTrials) -> None:
    """A single replica has no other that a copy could go to."""
    copied, plain = trials.trial(0, StageSize(1, 0, 3)), trials.trial(0, StageSize(1))
    assert copied is plain is not None
    given = trials.trial(0, StageSize(3, 0, FIXED_LEVEL))  # no policy was given
    assert given is trials.trial(0, StageSize(3)) is not None


def test_too_few_replicas_are_no_size_with_copies_or_without() -> None:
    trials = trials_of(rate_per_s=400.0)
    fewest = trials.fewest(0, 0)
    assert fewest == 2
    for level in (0, 4, FIXED_LEVEL):
        assert trials.trial(0, StageSize(fewest - 1, 0, level)) is None


def test_sizes_that_are_tried_at_once_are_those_that_are_tried_one_by_one() -> None:
    wanted = [
        (stage, StageSize(count, 0, level)) for stage in (0, 1) for count in (1, 2, 3) for level in (0, 4)
    ]
    ran: list[int] = []

    def counted(jobs: Sequence[Job]) -> Iterator[object]:
        ran.append(len(jobs))
        return one_by_one(jobs)

    together, apart = trials_of(), trials_of()
    together.prepare([*wanted, *wanted], counted)
    assert ran == [6, 4]  # plain ones first; a single replica has no copies
    together.prepare(wanted, counted)
    assert ran == [6, 4, 0, 0]
    for stage, size in wanted:
        first, second = together.trial(stage, size), apart.trial(stage, size)
        assert first is not None
        assert second is not None
        assert first.latency_ms.tolist() == second.latency_ms.tolist()
        assert (first.policy, first.extra_load) == (second.policy, second.extra_load)


def test_given_policies_are_those_of_their_level_and_near_one_of_the_others() -> None:
    trials = trials_of()
    assert trials.given_level(0) == 0
    policy = Reissue(after_ms=30.0, fraction=0.06)
    trials.give({0: policy})
    assert trials.policy(0, StageSize(3, 0, FIXED_LEVEL)) == policy
    assert trials.policy(1, StageSize(3, 0, FIXED_LEVEL)) is None
    assert trials.policy(0, StageSize(1, 0, FIXED_LEVEL)) is None
    assert LEVELS[trials.given_level(0)] == 0.05
    trial = trials.trial(0, StageSize(3, 0, FIXED_LEVEL))
    assert trial is not None
    assert trial.policy == policy
    assert 0 < trial.copies <= 0.07
    for fraction, level in ((0.001, 0.005), (0.2, 0.2), (0.9, 0.2), (0.011, 0.01)):
        other = trials_of()
        other.give({1: Reissue(after_ms=30.0, fraction=fraction)})
        assert LEVELS[other.given_level(1)] == level


def test_the_share_of_copies_rises_from_level_to_level() -> None:
    assert LEVELS[0] == 0.0
    assert LEVELS[1] == 0.005
    assert LEVELS[-1] == 0.2
    assert all(1.2 <= more / less <= 2.0 for less, more in pairwise(LEVELS[1:]))


def test_a_stage_without_replicas_has_no_size_to_choose() -> None:
    """What nothing is known of is played back as it was recorded, whatever is asked for."""
    profile = straggling_profile(requests=500)
    first, second = profile.stages
    unknown = replace(first, busy_ms=None, busy_variation=None, replicas=None)
    model = load_model(replace(profile, stages=(unknown, second)), QueueSettings())
    trials = StageTrials(model, RATE, Supply(NAMES, {}), seed=0, requests=1000)
    assert [trials.sized(stage) for stage in (0, 1)] == [False, True]
    assert (trials.fewest(0, 0), trials.busy_cores(0, 0), trials.speed(0, StageSize(0))) == (0, 0.0, 1.0)
    trial = trials.trial(0, StageSize(0))
    assert trial is not None
    assert trial.utilisation == 0.0
    assert np.median(trial.latency_ms) == pytest.approx(np.median(first.calls_ms), rel=0.1)


def test_calls_come_after_the_answers_of_the_stages_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """As recorded: half a second after the request arrived."""
    first, second = straggling_profile(requests=500).stages
    steady = replace(first, calls_ms=np.full_like(first.calls_ms, 500.0))
    profile = replace(straggling_profile(requests=500), stages=(steady, second))
    came: list[Floats] = []

    def seen(station: Station, calls: SimulatedCalls, rng: np.random.Generator) -> object:
        came.append(calls.arrival)
        return serve(station, calls, rng)

    monkeypatch.setattr("kwiken.allocator.capacity.trials.serve", seen)
    trials = StageTrials(load_model(profile), RATE, Supply(NAMES, {}), seed=0, requests=500)
    for stage in (0, 1):
        trials.trial(stage, StageSize(3))
    assert came[1] == pytest.approx(came[0] + 500.0)
    assert np.all(np.diff(came[0]) >= 0)


def test_a_stage_takes_no_time_where_it_is_skipped_and_until_its_answer_was_read() -> None:
    """Half of the requests skip the first stage; its answers lie at the caller for 7 ms."""
    profile = straggling_profile(requests=1000)
    first, second = profile.stages
    skipped = (np.arange(1000) % 2 == 0)[:, None]
    found = []
    for lag_ms in (0.0, 7.0):
        calls_ms = np.where(skipped, np.nan, first.calls_ms + lag_ms)
        lag = None if not lag_ms else np.where(skipped, np.nan, lag_ms)
        changed = replace(first, calls_ms=calls_ms, lag_ms=lag)
        model = load_model(replace(profile, stages=(changed, second)))
        trials = StageTrials(model, RATE, Supply(NAMES, {}), seed=0, requests=2000)
        assert trials.busy_cores(0, 0) == pytest.approx(4.0 * RATE / 1e3 / 2)
        trial = trials.trial(0, StageSize(3))
        assert trial is not None
        found.append(trial.latency_ms)
    without, late = found
    assert (without == 0.0).mean() == pytest.approx(0.5, abs=0.05)
    assert np.array_equal(without == 0.0, late == 0.0)
    assert late[late > 0] == pytest.approx(without[without > 0] + 7.0)


def test_where_other_work_leaves_nothing_a_thousandth_of_a_replica_counts() -> None:
    """Other work takes more than nine tenths of the time, and the calls keep some tenth of a core busy."""
    profile = straggling_profile(requests=200)
    first, second = profile.stages
    quick = replace(profile, stages=(replace(first, busy_ms=1.5), second))
    model = load_model(quick, QueueSettings(utilisation={"fetch": 0.96}))
    trials = StageTrials(model, RATE, Supply(NAMES, {}), seed=0, requests=200)
    assert trials.busy_cores(0, 0) == pytest.approx(0.15)
    assert trials.fewest(0, 0) == 150


def test_work_at_another_speed_is_the_work_over_the_speed() -> None:
    work = LogNormal(6.0, 0.5)
    twice = AtSpeed(work, 2.0)
    assert twice.mean_ms == pytest.approx(3.0)
    drawn = [one.draw(np.random.default_rng(0), 100) for one in (work, twice)]
    assert drawn[1] * 2 == pytest.approx(drawn[0])


def test_another_seed_draws_other_requests() -> None:
    found = [trials_of(seed=seed).trial(1, StageSize(2)) for seed in (0, 0, 1)]
    latencies = [one.latency_ms.tolist() for one in found if one is not None]
    assert latencies[0] == latencies[1] != latencies[2]


def test_requests_with_fewer_calls_than_others_count_for_a_policy() -> None:
    """Of up to two calls, half of the requests make the first alone, and the others the second alone."""
    rng = np.random.default_rng(0)
    calls_ms = np.full((4000, 2), np.nan)
    calls_ms[np.arange(4000), np.arange(4000) % 2] = rng.lognormal(1.0, 1.0, 4000)
    found = _policies(Trial(np.nanmax(calls_ms, axis=1), None, 0.0, 0.0, 0.5, calls_ms))
    assert found[0] is None
    assert all(policy is not None for policy in found[1:])


def test_a_policy_is_made_from_twenty_thousand_calls_or_one_request() -> None:
    """What comes after the first 20,000 calls, of other latencies, changes nothing."""
    rng = np.random.default_rng(0)
    parts = [rng.uniform(5.0, most_ms, 10_000) for most_ms in (10.0, 20.0, 1000.0, 1000.0, 1000.0, 1000.0)]

    def policies(calls_ms: Floats, width: int) -> tuple[Reissue | None, ...]:
        rows = calls_ms.reshape(-1, width)
        return _policies(Trial(rows.max(axis=1), None, 0.0, 0.0, 0.5, rows))

    for width, used in ((1, 2), (1000, 2), (20_000, 2), (30_000, 3)):
        found = policies(np.concatenate(parts), width)
        assert found == policies(np.concatenate(parts[:used]), width)
        if width <= 1000:
            assert found != policies(np.concatenate(parts[:1]), width)


def test_a_policy_needs_enough_calls() -> None:
    rng = np.random.default_rng(0)
    for count, enough in ((MIN_CALLS_FOR_CURVE, True), (MIN_CALLS_FOR_CURVE - 1, False)):
        calls_ms = np.full((4 * count, 1), np.nan)
        calls_ms[:count, 0] = rng.lognormal(1.0, 1.0, count)
        found = _policies(Trial(np.nan_to_num(calls_ms[:, 0]), None, 0.0, 0.0, 0.5, calls_ms))
        assert any(policy is not None for policy in found) == enough


def test_only_stages_whose_calls_may_be_repeated_get_copies() -> None:
    profile = straggling_profile(requests=500)
    first, second = profile.stages
    changed = replace(profile, stages=(replace(first, reissuable=False), second))
    trials = StageTrials(load_model(changed), RATE, Supply(NAMES, {}), seed=0, requests=500)
    assert [trials.reissuable(stage) for stage in range(2)] == [False, True]
    assert trials.policy(0, StageSize(3, level=4)) is None
    assert trials.policy(1, StageSize(3, level=4)) is not None


def test_replicas_that_cannot_serve_the_calls_have_no_policy() -> None:
    busy = trials_of(rate_per_s=1000.0)
    assert busy.fewest(0, 0) > 2
    assert busy.policy(0, StageSize(2, level=3)) is None
    assert busy.trial(0, StageSize(2, level=3)) is None


def test_a_size_whose_calls_cannot_be_served_has_no_trial(
    trials: StageTrials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kwiken.allocator.capacity.trials._serve", lambda *_: None)
    assert trials.trial(0, StageSize(7)) is None
