"""Insurance of a plan: a part of the budget for stages that have not stalled yet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.cost_models import costs
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.apportion.apportioner import insured
from kwiken.tail.apportion.sum_of_variances import sumvar, with_coins
from kwiken.tail.curves.curve import stage_curves
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


@pytest.fixture
def profile(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    """A stage that stalls, and two that never have."""
    rng = np.random.default_rng(2)
    stalls = 300.0 * (rng.random(4000) < 0.02)
    return profile_of(
        stage_of("stalls", rng.uniform(9, 11, 4000) + stalls),
        stage_of("calm", rng.uniform(9, 11, 4000), after=("stalls",)),
        stage_of("quick", rng.uniform(0.9, 1.1, 4000), after=("calm",)),
    )


def test_stages_without_copies_get_the_same_least_share(profile: Profile) -> None:
    curves, prices = stage_curves(profile), costs(profile).stages
    own = with_coins(sumvar(curves, prices, 0.009), curves)
    found = insured(own, curves, prices, 0.001)
    least = 0.001  # prices sum to 1
    assert own.fractions["stalls"] > least
    assert found.fractions == pytest.approx({**own.fractions, "calm": least, "quick": least})
    assert found.spent == pytest.approx(own.spent + least * (prices["calm"] + prices["quick"]))
    assert {name: found.coins[name] for name in own.coins} == dict(own.coins)
    assert found.path == own.path


def test_no_stage_gets_more_than_all_of_its_calls(profile: Profile) -> None:
    curves, prices = stage_curves(profile), costs(profile).stages
    found = insured(sumvar(curves, prices, 2.0), curves, prices, 5.0)
    assert set(found.fractions.values()) == {1.0}


def shares_of(profile: Profile, **settings: object) -> dict[str, float]:
    plan = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.02), created="", **settings)).plan  # type: ignore[arg-type]
    return {name: stage.reissue.fraction for name, stage in plan.stages.items() if stage.reissue is not None}


def test_a_plan_insures_what_has_not_stalled_and_the_source_does_not(profile: Profile) -> None:
    found = shares_of(profile, insurance=0.2)
    assert min(found["calm"], found["quick"]) >= 0.8 * 0.004
    assert found["stalls"] > 0.0175  # nearly all that stalled
    assert set(shares_of(profile, objective="variance")) == {"stalls"}


def test_a_stall_that_comes_later_surely_gets_a_copy(profile: Profile) -> None:
    plan = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.02), created="")).plan
    policy = plan.stages["calm"].reissue
    assert policy is not None
    assert policy.after_ms > 10.9, "the slowest calls"
    assert policy.probability > 0.9
