"""Pauses of a stage's only replica: every call that comes meanwhile waits, as in an exact simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.allocator.capacity import StageSize
from kwiken.allocator.capacity.lone_replicas import LonePauses
from kwiken.allocator.capacity.supply import Supply
from kwiken.allocator.capacity.trials import StageTrials
from kwiken.allocator.capacity.verification import verify
from kwiken.model.profile import Profile
from kwiken.tail.queueing.load import QueueSettings, load_model
from kwiken.tail.queueing.simulator import Primaries
from tests.support.models.pauses import PAUSE_MS, PAUSED, REPLICAS, pausing_profile

RATE_PER_S = 60.0
RECORDED_S = 1500.0


@pytest.fixture(scope="module")
def learned() -> Profile:
    return pausing_profile(RATE_PER_S, RECORDED_S, 1)


def trials_of(profile: Profile) -> StageTrials:
    model = load_model(profile, QueueSettings(rate_per_s=RATE_PER_S))
    return StageTrials(model, RATE_PER_S, Supply(["a"], {}), seed=0, requests=20_000)


def met_pauses_per_s(profile: Profile) -> float:
    """Number of pauses a second that some call met: slow calls of several replicas are one for each pause."""
    return float((profile.latency_ms > PAUSE_MS / 10).mean()) * RATE_PER_S


def test_a_pause_of_the_only_replica_holds_up_all_calls_that_come_meanwhile(learned: Profile) -> None:
    """Learned with three replicas; true of one replica with as many pauses as met a call before."""
    paused = met_pauses_per_s(learned) * PAUSE_MS / 1e3
    truth = pausing_profile(RATE_PER_S, RECORDED_S, 2, paused=paused, count=1)
    trial = trials_of(learned).trial(0, StageSize(1))
    assert trial is not None
    share = float((trial.latency_ms > PAUSE_MS / 2).mean())
    true_share = float((truth.latency_ms > PAUSE_MS / 2).mean())
    alone = float((learned.latency_ms > PAUSE_MS / 2).mean())
    assert share == pytest.approx(true_share, rel=0.25)
    assert share > 1.5 * alone


def test_the_check_of_the_whole_service_agrees_with_the_trial(learned: Profile) -> None:
    trials = trials_of(learned)
    for size in (StageSize(1), StageSize(REPLICAS)):
        trial, checked = trials.trial(0, size), verify(trials, (size,), seed=3)
        assert trial is not None
        assert checked is not None
        slow = [(latency_ms > PAUSE_MS / 2).mean() for latency_ms in (trial.latency_ms, checked.latency_ms)]
        assert slow[1] == pytest.approx(slow[0], rel=0.25)


def test_calls_of_one_request_that_met_one_pause_hold_the_replica_once(learned: Profile) -> None:
    model = load_model(learned, QueueSettings(rate_per_s=RATE_PER_S))
    caught = np.array([[True, True], [False, False]])
    model = replace(model, stalls={"a": replace(model.stalls["a"], caught=caught)})
    rest = np.array([[40.0, 70.0], [2.0, 2.0]])
    pauses = LonePauses.of(model, "a", np.array([0, 1]), Primaries(np.ones_like(rest), rest), 1.0)
    assert pauses.within_rest_ms.tolist() == [[40.0, 70.0], [0.0, 0.0]]
    assert 70.0 < pauses.held_ms[0, 1] < PAUSE_MS
    assert np.count_nonzero(pauses.held_ms) == 1
    work, left = pauses.added(np.ones_like(rest), rest)
    assert work[1].tolist() == [1.0, 1.0]
    assert left.tolist() == [[0.0, 0.0], [2.0, 2.0]]


def test_a_stage_recorded_with_one_replica_is_left_as_it_was() -> None:
    profile = pausing_profile(RATE_PER_S, 300.0, 4, paused=PAUSED, count=1)
    trials = trials_of(profile)
    trial = trials.trial(0, StageSize(1))
    assert trial is not None
    recorded, simulated = ((ms > PAUSE_MS / 2).mean() for ms in (profile.latency_ms, trial.latency_ms))
    assert simulated == pytest.approx(recorded, rel=0.25)
