"""Apportionment by mean and variance together, against the sum of variances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.apportion.mean_variance import MeanVarianceApportioner
from kwiken.tail.apportion.sum_of_variances import allocation_of, sumvar
from kwiken.tail.curves.curve import stage_curves
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from kwiken.tail.simulation.trace_driven import replay
from papers.worlds.populations.services import POPULATIONS, population, population_profile

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
CREATED = "2026-01-01T00:00:00Z"


@pytest.fixture
def branches(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    """Long branch on every critical path, and a short branch with more variance on none."""
    rng = np.random.default_rng(1)
    return profile_of(
        stage_of("long", 100 + rng.exponential(10, 4000)),
        stage_of("short", np.minimum(rng.exponential(20, 4000), 99.0)),
        stage_of("join", rng.uniform(1, 2, 4000), after=("long", "short")),
    )


def test_what_no_request_waits_for_gets_nothing(branches: Profile) -> None:
    curves = stage_curves(branches)
    prices = {"long": 0.4, "short": 0.4, "join": 0.2}
    assert sumvar(curves, prices, 0.05).fractions["short"] > 0.05
    found = MeanVarianceApportioner(branches, curves)(prices, 0.05)
    assert found.fractions["short"] == 0
    assert found.fractions["long"] > 0.1
    assert found.spent == pytest.approx(0.05)


@given(st.integers(0, 2**32), st.floats(0.001, 1.0))
def test_the_budget_is_kept_and_gains_are_the_curves_own(seed: int, budget: float) -> None:
    rng = np.random.default_rng(seed)
    dag = population(POPULATIONS["C"], rng, dags=5)[int(rng.integers(5))][:8]
    profile = population_profile(dag, 400, rng)
    curves = stage_curves(profile)
    prices = {name: 1 / len(curves) for name in curves}
    found = MeanVarianceApportioner(profile, curves)(prices, budget)
    assert found.spent <= budget * (1 + 1e-9)
    assert all(0 <= share <= 1 for share in found.fractions.values())
    for name, share in found.fractions.items():
        assert found.gains[name] == pytest.approx(curves[name].hull[0] - curves[name].hull_at(share))


def test_equal_stages_of_a_chain_get_equal_budgets(stage_of: StageOf, profile_of: ProfileOf) -> None:
    calls = np.random.default_rng(2).lognormal(2, 1, 3000)
    profile = profile_of(stage_of("a", calls), stage_of("b", calls, after=("a",)))
    found = MeanVarianceApportioner(profile, stage_curves(profile))({"a": 0.5, "b": 0.5}, 0.06)
    assert found.fractions["a"] == pytest.approx(found.fractions["b"], rel=0.5)
    assert found.spent == pytest.approx(0.06)


def test_on_later_requests_it_is_no_worse_than_the_sum_of_variances() -> None:
    ahead = []
    for place in (12, 16, 20, 24, 28):
        dag = population(POPULATIONS["A"], np.random.default_rng(3))[place]
        rng = np.random.default_rng([3, place])
        early, later = (population_profile(dag, requests, rng) for requests in (4000, 8000))
        cuts = []
        for objective in ("variance", "tail"):
            settings = PlanSettings(
                budgets=Budgets(reissue=0.05), objective=objective, insurance=0.0, created=CREATED
            )
            rows = np.repeat(np.arange(later.requests), -(-20_000 // later.requests))
            found = replay(later, study_plan(early, settings).plan, rows, seed=2, copy_correlation=0.0)
            cuts.append(1 - found.after.p99_ms / found.before.p99_ms)
        ahead.append(cuts[1] - cuts[0])
    assert np.mean(ahead) > -0.002
    assert min(ahead) > -0.03


def test_given_shares_cost_and_gain_what_the_curves_say(branches: Profile) -> None:
    curves = stage_curves(branches)
    prices = {"long": 0.4, "short": 0.4, "join": 0.2}
    found = allocation_of(curves, prices, {"long": 0.1})
    assert found.spent == pytest.approx(0.04)
    assert found.fractions == {"long": 0.1, "short": 0.0, "join": 0.0}
    assert found.gains["long"] > 0 == found.gains["short"]
    with pytest.raises(InputError):
        allocation_of(curves, {**prices, "long": 0.0}, {})
