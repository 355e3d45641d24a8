"""Benchmark of plans on later requests: its cases, tables and targets."""

from __future__ import annotations

import numpy as np

from benchmarks.outside.bench_outside import lines, summary, targets
from benchmarks.outside.outside_data import Recording
from benchmarks.outside.outside_judge import BUDGETS, judged
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from tests.support.models.profile_fixtures import ProfileOf, StageOf


def still_of(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    """A stage that stalls in 2% of its calls, all the time, before one that never does."""
    rng = np.random.default_rng(4)
    stalls = np.where(rng.random(2000) < 0.02, 150.0, 0.0)
    stages: list[StageProfile] = [
        stage_of("stalls", rng.lognormal(1, 0.3, 2000) + stalls),
        stage_of("calm", rng.lognormal(2, 0.3, 2000), after=("stalls",)),
    ]
    return profile_of(*stages)


def test_cases_are_judged_for_every_data_set_and_reach_the_targets(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    profile = still_of(stage_of, profile_of)
    pair = part_of(profile, np.arange(1000)), part_of(profile, np.arange(1000, 2000))
    cases = judged([Recording({"generator": 1.0, "busy": 0.01}, "still", (pair,))])
    assert [(case.data_set, case.budget) for case in cases] == [
        (name, budget) for budget in BUDGETS for name in ("generator", "busy")
    ]
    assert len(lines(cases)) == 2 + 6
    assert len(summary(cases)) == 2 + 6
    generous = [case for case in cases if case.data_set == "generator" and case.budget == 0.05]
    ahead, linked, ratio, *_ = targets("generator", generous)
    assert ahead.met
    assert linked.target == -1.0
    assert ratio.ours > 95
    assert ratio.met
    assert [row.met for row in targets("another", generous)[2:]] == [None] * 5
