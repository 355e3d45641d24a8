"""Halves of the recorded requests: sizes are searched on one, and promised from the other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kwiken.allocator.capacity.recorded_requests import (
    MAX_BLOCKS,
    RecordedHalves,
    recorded_arrivals,
    resampled_requests,
)
from kwiken.allocator.capacity.supply import StageSize, Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.allocator.capacity.verification import verify
from kwiken.model.profile.subset import part_of
from kwiken.tail.queueing.load.decompose import load_model
from tests.support.models.stragglers import straggling_profile

REQUESTS = 400
ALL = straggling_profile(requests=REQUESTS)
SIZES = (StageSize(4, 0), StageSize(4, 0))


@given(requests=st.integers(2, REQUESTS), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_each_request_is_in_one_half(requests: int, seed: int) -> None:
    mixed = part_of(ALL, np.random.default_rng(seed).permutation(REQUESTS)[:requests])
    halves = RecordedHalves.of(mixed)
    assert sorted([*halves.searched, *halves.checked]) == list(range(requests))
    assert abs(len(halves.searched) - len(halves.checked)) <= -(-requests // MAX_BLOCKS)


def test_halves_are_whole_blocks_of_time_in_turn() -> None:
    backwards = part_of(ALL, np.arange(REQUESTS)[::-1])
    halves = RecordedHalves.of(backwards)
    assert np.all(np.diff(backwards.started_s[halves.searched]) >= 0)
    length = REQUESTS // MAX_BLOCKS
    times = REQUESTS - 1 - halves.searched  # place of each request in order of time
    assert times[: 2 * length].tolist() == [*range(length), *range(2 * length, 3 * length)]


def test_a_single_request_is_in_both_halves() -> None:
    halves = RecordedHalves.of(part_of(ALL, np.array([7])))
    assert halves.searched.tolist() == halves.checked.tolist() == [0]


def test_trials_see_one_half_and_the_check_the_other() -> None:
    halves = RecordedHalves.of(ALL)
    stages = list(ALL.stages)
    slow = stages[0].calls_ms.copy()
    slow[halves.checked] += 500.0
    stages[0] = replace(stages[0], calls_ms=slow)
    model = load_model(replace(ALL, stages=tuple(stages)))
    supply = Supply([stage.name for stage in stages], {}, None)
    found = {}
    for name, one in (("usual", None), ("swapped", RecordedHalves(halves.checked, halves.searched))):
        trials = StageTrials(model, 100.0, supply, seed=0, requests=1000, halves=one)
        trial, verified = trials.trial(0, SIZES[0]), verify(trials, SIZES, seed=1)
        assert trial is not None
        assert verified is not None
        found[name] = float(np.median(trial.latency_ms)), float(np.median(verified.latency_ms))
    assert found["usual"][0] < 500.0 <= found["usual"][1]
    assert found["swapped"][1] < 500.0 <= found["swapped"][0]


@given(count=st.integers(1, 3000), rate=st.floats(0.1, 1e4), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_arrivals_come_at_the_rate_and_never_go_back(count: int, rate: float, seed: int) -> None:
    arrivals = recorded_arrivals(ALL, rate, count, np.random.default_rng(seed))
    assert arrivals.shape == (count,)
    assert arrivals[0] >= 0
    assert np.all(np.diff(arrivals) >= 0)
    assert arrivals[-1] == pytest.approx(count * 1e3 / rate)


def test_arrivals_keep_the_recorded_bursts() -> None:
    """A rate that is four times as high in every second stretch: counts vary more than in a Poisson process."""
    rng = np.random.default_rng(0)
    gaps = rng.standard_exponential(REQUESTS) * np.where(np.arange(REQUESTS) // 20 % 2, 0.4, 1.6)
    bursty = replace(ALL, started_s=1e9 + np.cumsum(gaps))
    steady = replace(ALL, started_s=1e9 + np.cumsum(rng.standard_exponential(REQUESTS)))
    spread = []
    for profile in (bursty, steady):
        arrivals = recorded_arrivals(profile, 100.0, 20_000, np.random.default_rng(1))
        counts = np.bincount((arrivals / 200.0).astype(np.int64))[:-1]
        spread.append(float(counts.var() / counts.mean()))
    assert spread[0] > 3.0
    assert spread[1] < 2.0


def test_without_recorded_times_arrivals_are_a_poisson_process() -> None:
    still = replace(ALL, started_s=np.full(REQUESTS, 1e9))
    arrivals = recorded_arrivals(still, 100.0, 5000, np.random.default_rng(2))
    gaps = np.diff(arrivals)
    assert gaps.mean() == pytest.approx(10.0, rel=0.05)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.05)
    single = recorded_arrivals(part_of(ALL, np.array([7])), 100.0, 5, np.random.default_rng(2))
    assert single.tolist() == arrivals[:5].tolist()


def test_another_recording_has_whole_blocks_of_this_one() -> None:
    drawn = resampled_requests(ALL, np.random.default_rng(3))
    length = REQUESTS // MAX_BLOCKS
    blocks = drawn.reshape(MAX_BLOCKS, length)
    assert np.all(blocks % length == np.arange(length))
    assert 1 < len(set(blocks[:, 0].tolist())) < MAX_BLOCKS


def test_arrivals_are_runs_of_recorded_gaps_from_anywhere_and_round_the_end() -> None:
    """Of 95 gaps that grow by one from each to the next, ten in a row are taken at a time, the last cut short."""
    recorded = part_of(ALL, np.arange(96))
    started_s = 1e9 + np.cumsum(np.arange(96.0))  # the first gap is of 1 s, the last of 95 s
    mixed = np.random.default_rng(0).permutation(96)
    arrivals = recorded_arrivals(
        replace(recorded, started_s=started_s[mixed]), 50.0, 10_003, np.random.default_rng(4)
    )
    gaps = np.diff(arrivals, prepend=0.0)
    seconds = gaps / np.median(np.diff(gaps))
    assert seconds == pytest.approx(np.round(seconds), abs=1e-4)
    runs = np.round(seconds).astype(int)[:10_000].reshape(1000, 10)
    assert np.array_equal((runs - runs[:, :1]) % 95, np.tile(np.arange(10), (1000, 1)))
    assert set(runs[:, 0]) == set(range(1, 96))
    assert arrivals[-1] == pytest.approx(10_003 / 50.0 * 1e3)
    # In a recording of half a second too, and for a few requests.
    short = replace(recorded, started_s=1e-4 * np.cumsum(np.arange(96.0)))
    gaps = np.diff(recorded_arrivals(short, 50.0, 10, np.random.default_rng(4)))
    steps = np.diff(gaps)
    assert steps == pytest.approx(np.full(8, steps[0]))
    assert gaps.sum() == pytest.approx(200.0, rel=0.2)


def test_arrivals_at_one_time_now_and_then_are_a_poisson_process() -> None:
    """Of 100 gaps a single one is not 0, so that ten in a row mostly have no length."""
    once = replace(part_of(ALL, np.arange(101)), started_s=np.where(np.arange(101) > 50, 1e9 + 1.0, 1e9))
    for seed in range(20):
        arrivals = recorded_arrivals(once, 100.0, 10, np.random.default_rng(seed))
        assert np.all(np.isfinite(arrivals))
        assert arrivals[-1] > 0
        assert np.all(np.diff(arrivals) >= 0)


@given(requests=st.integers(1, REQUESTS), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_requests_are_resampled_by_twentieths_of_the_recording(requests: int, seed: int) -> None:
    """As many blocks as there are, each in order of time; the last one may be shorter than the others."""
    mixed = part_of(ALL, np.random.default_rng(seed).permutation(REQUESTS)[:requests])
    in_time = np.argsort(mixed.started_s).tolist()
    length = math.ceil(requests / 20)
    blocks = [in_time[begin : begin + length] for begin in range(0, requests, length)]
    left = resampled_requests(mixed, np.random.default_rng(seed)).tolist()
    taken = 0
    while left:
        block = next(one for one in blocks if one[0] == left[0])
        assert left[: len(block)] == block
        left, taken = left[len(block) :], taken + 1
    assert taken == len(blocks)
    halves = RecordedHalves.of(mixed)
    even = [one for block in blocks[::2] for one in block]
    odd = [one for block in blocks[1::2] for one in block]
    assert halves.searched.tolist() == even
    assert halves.checked.tolist() == (odd or even)
