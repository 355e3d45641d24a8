"""World of pauses in which promised sizes are checked: exact service around pauses, rates and copies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from benchmarks.sizes.paused_world import PausedWorld, WorldSize, WorldStage, _bursty_arrivals, _Replica
from kwiken.model.service.stage import Reissue

PAUSED = WorldStage((), 5.0, 3000.0)
QUIET = WorldStage((), 5.0, 1e12)


def test_work_stops_during_a_pause_and_waits_for_its_end() -> None:
    replica = _Replica(1e9, 0.0, np.random.default_rng(0))
    replica.begins, replica.ends = [10.0, 40.0], [30.0, 45.0]
    assert replica.serve(0.0, 5.0) == 5.0
    assert replica.serve(8.0, 5.0) == 33.0  # two before the pause, three after it
    assert replica.serve(20.0, 2.0) == 35.0
    assert replica.serve(36.0, 10.0) == 51.0
    assert replica.waiting(34.0) == 2
    assert replica.serve(100.0, 1.0) == 101.0


@given(seed=st.integers(0, 999), requests=st.integers(1, 400))
@settings(max_examples=30, deadline=None)
def test_requests_take_at_least_their_work_along_the_longest_path(seed: int, requests: int) -> None:
    rng = np.random.default_rng(seed)
    world = PausedWorld.drawn(rng)
    run = world.run([WorldSize(3)] * len(world.stages), requests, rng)
    for calls, work in zip(run.calls_ms, run.work_ms, strict=True):
        assert np.all(calls >= work - 1e-6)
    assert np.all(run.latency_ms >= np.max(run.calls_ms, axis=0) - 1e-6)
    assert np.all(np.diff(run.arrival_ms) >= 0)


def test_arrivals_have_the_rate_in_the_mean() -> None:
    arrivals = _bursty_arrivals(100.0, 100_000, np.random.default_rng(1))
    assert 1e8 / arrivals[-1] == pytest.approx(100.0, rel=0.05)


def test_copies_pass_a_pause_where_the_account_pays() -> None:
    world = PausedWorld([PAUSED], 50.0)
    paid, unpaid = Reissue(after_ms=25.0, fraction=0.1), Reissue(after_ms=25.0, fraction=0.0)
    plain, copied, few = (
        world.run([WorldSize(4, policy)], 5000, np.random.default_rng(2)).latency_ms
        for policy in (None, paid, unpaid)
    )
    assert np.percentile(copied, 99) < 0.7 * np.percentile(plain, 99)
    assert np.percentile(few, 99) > 1.5 * np.percentile(copied, 99)  # a few copies are paid for at the start


def test_a_recording_has_what_traces_have() -> None:
    profile = PausedWorld([QUIET], 50.0).recording(500, np.random.default_rng(3))
    (stage,) = profile.stages
    assert stage.busy_ms == pytest.approx(5.0, rel=0.2)
    assert stage.asked is not None
    assert set(stage.asked.ravel().tolist()) == {0, 1, 2, 3}
    assert np.all(profile.latency_ms == stage.latency_ms)
