"""Correlation of pairs of stages, and of calls with their copies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.diagnosis.explanation import MIN_JOINT_REQUESTS, explain, joint_copies, joint_stages

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


def test_pairs_of_stages_are_counted_by_their_correlation(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(1)
    alone, shared = rng.exponential(5, 3000), rng.exponential(5, 3000)
    profile = profile_of(
        stage_of("alone", alone),
        stage_of("one", shared + rng.uniform(0, 1, 3000), after=("alone",)),
        stage_of("other", shared + rng.uniform(0, 1, 3000), after=("one",)),
    )
    found = joint_stages(profile)
    assert found is not None
    assert (found.pairs, found.low, found.high) == (3, 2 / 3, 1 / 3)
    assert explain(profile).joint_stages == found
    assert joint_copies(profile) is None


def test_requests_that_skip_a_stage_do_not_count_for_its_pairs(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    rng = np.random.default_rng(2)
    often, seldom = rng.exponential(5, 500), rng.exponential(5, 500)
    seldom[MIN_JOINT_REQUESTS - 1 :] = np.nan
    assert joint_stages(profile_of(stage_of("often", often), stage_of("seldom", seldom))) is None


def test_copies_count_where_both_ended(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(3)
    stage = stage_of("one", rng.exponential(5, 400))
    calls = rng.exponential(5, 200)
    pairs = np.stack((calls, calls + rng.uniform(0, 1, 200)), axis=1)
    cut = np.zeros((200, 2), np.bool_)
    found = joint_copies(profile_of(replace(stage, pairs_ms=pairs, pairs_cut=cut)))
    assert found is not None
    assert (found.pairs, found.low, found.high) == (1, 0.0, 1.0)
    cut[:, 1] = True
    assert joint_copies(profile_of(replace(stage, pairs_ms=pairs, pairs_cut=cut))) is None
