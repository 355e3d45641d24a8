"""Cuts of p99 by stage: of the stage that stalls, and none of one that copies do not help."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.planning.cuts_of_p99 import p99_cuts
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


def test_the_cut_is_that_of_the_stage_that_stalls(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(8)
    profile = profile_of(
        stage_of("stalls", rng.lognormal(2, 0.2, 2000) + 300.0 * (rng.random(2000) < 0.04)),
        stage_of("steady", np.full(2000, 5.0), after=("stalls",)),
        stage_of("write", rng.lognormal(1, 0.2, 2000), after=("steady",), reissuable=False),
    )
    study = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.05), created=""))
    found = p99_cuts(profile, study)
    assert found["stalls"].cut_ms > 200
    assert found["stalls"].next_ms < 0.1 * found["stalls"].cut_ms
    assert all(abs(cut) < 1 for name, each in found.items() if name != "stalls" for cut in each)
    assert "write" not in found
    none = study_plan(profile, PlanSettings(budgets=Budgets(), created=""))
    assert p99_cuts(profile, none)["stalls"].cut_ms == 0
    assert p99_cuts(profile, none)["stalls"].next_ms >= 0
