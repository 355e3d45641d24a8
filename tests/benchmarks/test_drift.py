"""Generator of recordings whose services do not stand still."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.outside.drift import DURATION_S, RATE_PER_S, SCENARIOS, drifting_profile
from kwiken.model.latency import end_to_end


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_recording_repeats_for_a_seed_and_adds_up(scenario: str) -> None:
    one, same, other = (drifting_profile(scenario, seed) for seed in (5, 5, 6))
    assert one.digest == same.digest != other.digest
    assert 4 <= len(one.stages) <= 30
    assert (np.diff(one.started_s) >= 0).all()
    latency = end_to_end(one.stages, {stage.name: stage.latency_ms for stage in one.stages})
    assert np.array_equal(latency, one.latency_ms)
    expected = RATE_PER_S * DURATION_S * (1.5 if scenario == "doubling" else 1)
    assert one.requests == pytest.approx(expected, rel=0.1)


def test_faults_move_between_stages() -> None:
    profile = drifting_profile("moving", 1)
    minute = (profile.started_s // 60).astype(int)
    slow = set()
    for stage in profile.stages:
        late = stage.latency_ms > 4 * np.median(stage.latency_ms[stage.visited])
        share = np.bincount(minute, late, minlength=120) / np.maximum(1, np.bincount(minute, minlength=120))
        if share.max() > 0.08:
            slow.add(stage.name)
    assert len(slow) >= 3


def test_the_load_doubles_half_way() -> None:
    early, late = (np.histogram(drifting_profile("doubling", 0).started_s, bins=[0, 3600, 7200])[0]).tolist()
    assert 1.2 < late / early < 2.2  # the slow wave takes some of the later half away


def test_one_stage_turns_slow_for_good() -> None:
    profile = drifting_profile("slow", 2)
    ends = profile.started_s < 1800, profile.started_s > 5400
    ratios = []
    for stage in profile.stages:
        medians = [np.median(stage.latency_ms[part & stage.visited]) for part in ends]
        ratios.append(medians[1] / medians[0])
    assert sum(ratio > 1.7 for ratio in ratios) == 1
