"""A budget is the most that may be spent: more of it never buys less, by the plan's own expectation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from kwiken.base.arrays import Floats
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.apportion.candidates import LADDER
from kwiken.tail.apportion.sum_of_variances import OBJECTIVES
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings, PlanStudy

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
REQUESTS = 400
BUDGETS = (0.004, 0.01, 0.013, 0.02, 0.03, 0.04, 0.05, 0.1, 0.15, 0.5)  # of the ladder, and between its rungs


def tied(rng: np.random.Generator) -> Floats:
    return rng.choice([2.0, 3.0, 4.0, 40.0], REQUESTS, p=[0.4, 0.37, 0.2, 0.03])


def bucketed(rng: np.random.Generator) -> Floats:
    return np.ceil(rng.lognormal(2.0, 0.8, REQUESTS) / 5) * 5


def constant(rng: np.random.Generator) -> Floats:
    return np.full(REQUESTS, float(rng.integers(1, 30)))


def mixed(rng: np.random.Generator) -> Floats:
    drawn = rng.lognormal(1.5, 0.3, REQUESTS)
    return np.where(rng.random(REQUESTS) < 0.03, 60.0, drawn)


KINDS = (tied, bucketed, constant, mixed)


def planned(profile: Profile, budget: float, **others: object) -> PlanStudy:
    given_ = {"budgets": Budgets(reissue=budget), "created": "", **others}
    return study_plan(profile, PlanSettings(**given_))  # type: ignore[arg-type]


def p99_after(study: PlanStudy) -> float:
    assert study.plan.expected is not None
    return study.plan.expected.after.p99_ms


def spend_of(study: PlanStudy) -> float:
    assert study.plan.expected is not None
    return study.plan.expected.spent.reissue


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3), seed=st.integers(0, 1000))
def test_the_expected_p99_never_rises_with_the_budget_and_the_spend_never_falls(
    objective: str,
    kinds: list[Callable[[np.random.Generator], Floats]],
    seed: int,
    stage_of: StageOf,
    profile_of: ProfileOf,
) -> None:
    rng = np.random.default_rng(seed)
    stages = [stage_of(f"s{i}", kind(rng), after=(f"s{i - 1}",) if i else ()) for i, kind in enumerate(kinds)]
    profile = profile_of(*stages)
    budgets = LADDER if objective == "variance" else BUDGETS
    found = [planned(profile, budget, objective=objective, seed=seed) for budget in budgets]
    p99s = [p99_after(study) for study in found]
    assert p99s == sorted(p99s, reverse=True)
    if objective == "tail":
        spends = [spend_of(study) for study in found]
        assert np.diff(spends).min() >= -1e-9, spends


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 1000))
def test_the_plan_expects_no_more_than_the_spreads_beside_it(
    seed: int, stage_of: StageOf, profile_of: ProfileOf
) -> None:
    rng = np.random.default_rng(seed)
    stages = [stage_of(f"s{i}", mixed(rng), after=(f"s{i - 1}",) if i else ()) for i in range(3)]
    profile = profile_of(*stages)
    plan = p99_after(planned(profile, 0.01))
    before = planned(profile, 0.01).simulation.before.p99_ms
    for spread in ("equal", "uniform"):
        rival = p99_after(planned(profile, 0.01, spread=spread))
        assert plan <= rival + 0.02 * (before - rival) + 1e-9
        assert p99_after(planned(profile, 0.01, within=0.0)) <= rival + 1e-9
