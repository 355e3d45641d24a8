"""Gains of chosen policies: exact for their own age and coin, against all pairs of call and copy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kwiken.base.arrays import Floats
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings, PlanStudy

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
CREATED = "2026-07-01T12:00:00+00:00"


def cut_by_pairs(x: Floats, policy: Reissue) -> float:
    """Fall of the variance of single calls, from all pairs of a call and a copy."""
    late = x > policy.after_ms
    raced = np.minimum(x[late, None], policy.after_ms + x[None, :])
    sure, p = x[late], policy.probability
    mean = (x[~late].sum() + (p * raced.mean(axis=1) + (1 - p) * sure).sum()) / len(x)
    square = ((x[~late] ** 2).sum() + (p * (raced**2).mean(axis=1) + (1 - p) * sure**2).sum()) / len(x)
    return float(x.var() - (square - mean**2))


def of(study: PlanStudy, name: str) -> Reissue:
    policy = study.plan.stages[name].reissue
    assert policy is not None
    return policy


@pytest.mark.parametrize(
    ("objective", "spread"),
    [
        ("tail", "sumvar"),
        ("variance", "sumvar"),
        ("tail", "uniform"),
        ("tail", "equal"),
    ],
)
def test_gains_are_those_of_the_policies_chosen(
    stage_of: StageOf, profile_of: ProfileOf, objective: str, spread: str
) -> None:
    rng = np.random.default_rng(1)
    calls = {"a": 20 * rng.lognormal(0, 1, 4000), "b": rng.exponential(15, 4000)}
    profile = profile_of(stage_of("a", calls["a"]), stage_of("b", calls["b"], after=("a",)))
    study = study_plan(
        profile,
        PlanSettings(
            budgets=Budgets(reissue=0.02), objective=objective, spread=spread, cost="calls", created=CREATED
        ),
    )
    acting = [name for name, stage in study.plan.stages.items() if stage.reissue is not None]
    assert acting
    for name in acting:
        exact = cut_by_pairs(calls[name], of(study, name))
        assert study.allocation.gains[name] == pytest.approx(exact, rel=0.02)
        low, high = study.between[name]
        assert 0 <= low < exact < high
    assert set(study.between) == set(acting)


def test_the_next_percent_is_more_of_the_policy_chosen(stage_of: StageOf, profile_of: ProfileOf) -> None:
    x = 20 * np.random.default_rng(1).lognormal(0, 1, 20_000)
    study = study_plan(
        profile_of(stage_of("a", x)),
        PlanSettings(budgets=Budgets(reissue=0.01), objective="variance", created=CREATED),
    )
    policy, curve = of(study, "a"), study.curves["a"]
    more = curve.policy(study.allocation.fractions["a"] + 0.01)
    assert more is not None
    few = np.sort(x)[::10]  # of 20,000 calls all pairs are many
    exact = cut_by_pairs(few, more) - cut_by_pairs(few, policy)
    assert study.allocation.marginal["a"] / 100 == pytest.approx(exact, rel=0.1)


def test_gains_of_fan_outs_are_those_of_their_copies(stage_of: StageOf, profile_of: ProfileOf) -> None:
    rng = np.random.default_rng(4)
    wide = rng.exponential(10, (3000, 3)) + 80 * (rng.random((3000, 3)) < 0.02)
    profile = profile_of(stage_of("wide", wide), stage_of("end", rng.exponential(2, 3000), after=("wide",)))
    study = study_plan(
        profile,
        PlanSettings(budgets=Budgets(reissue=0.03), created=CREATED),
    )
    policy = of(study, "wide")
    calls = np.tile(wide, (40, 1))
    sent = (calls > policy.after_ms) & (rng.random(calls.shape) < policy.probability)
    copies = policy.after_ms + rng.choice(wide.ravel(), calls.shape)
    after = np.where(sent, np.minimum(calls, copies), calls).max(axis=1)
    exact = wide.max(axis=1).var() - after.var()
    assert study.allocation.gains["wide"] == pytest.approx(exact, rel=0.05)
    low, high = study.between["wide"]
    assert low < exact < high
