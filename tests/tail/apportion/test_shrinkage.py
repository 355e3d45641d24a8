"""Shrinkage of uncertain gains: budget goes first to gains that the requests prove."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.apportion.apportioner import Shrinkage
from kwiken.tail.apportion.notes import GainsMayBeChance
from kwiken.tail.apportion.sum_of_variances import allocation_of, sumvar
from kwiken.tail.curves.confidence import UNCERTAIN_GAIN_SHARE, curve_bounds
from kwiken.tail.curves.curve import stage_curves
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from tests.support.models.notes import of_kind

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]
CREATED = "2026-01-01T00:00:00Z"


def lucky(requests: int, *, seed: int = 1) -> np.ndarray:
    """Stage that was very slow once, in one block of time."""
    rng = np.random.default_rng(seed)
    calls = rng.gamma(100, 1 / 100, requests)
    calls[requests // 3] = 60.0
    return calls


def late(requests: int, *, seed: int = 2) -> np.ndarray:
    """Stage that is slow repeatedly."""
    rng = np.random.default_rng(seed)
    return rng.gamma(100, 1 / 100, requests) + rng.exponential(8, requests) * (rng.random(requests) < 0.05)


def test_one_slow_call_counts_for_less(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = profile_of(stage_of("lucky", lucky(1000)), stage_of("late", late(1000), after=("lucky",)))
    curves = stage_curves(profile)
    prices = {"lucky": 0.5, "late": 0.5}
    cautious = Shrinkage(profile, curves)
    careful = allocation_of(curves, prices, sumvar(cautious.hulls(prices, 0.005), prices, 0.005).fractions)
    kept = {}
    for name, bounds in cautious.bounds.items():
        hull = bounds.shrunk(curves[name].hull).hull
        kept[name] = (hull[0] - hull[-1]) / (curves[name].hull[0] - curves[name].hull[-1])
    assert kept["lucky"] == pytest.approx(UNCERTAIN_GAIN_SHARE)
    assert UNCERTAIN_GAIN_SHARE < kept["late"] < 1
    assert careful.spent <= 0.005 * (1 + 1e-9)
    assert [name for name, bounds in cautious.bounds.items() if bounds.certainty == 0] == ["lucky"]
    low, high = cautious.bounds["lucky"].gain_between(0.005)
    assert low == 0
    assert high > 1
    low, high = cautious.bounds["late"].gain_between(careful.fractions["late"])
    assert 0 < low < careful.gains["late"] < high


def test_uncertain_gains_still_get_budget_that_no_other_stage_needs(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    """A tail that was seen once may come again, and spare budget has no other use."""
    profile = profile_of(stage_of("lucky", lucky(1000)), stage_of("late", late(1000), after=("lucky",)))
    prices = {"lucky": 0.5, "late": 0.5}
    found = sumvar(Shrinkage(profile, stage_curves(profile)).hulls(prices, 0.2), prices, 0.2)
    assert found.fractions["lucky"] > 0.001


def test_the_plan_is_as_timid(stage_of: StageOf, profile_of: ProfileOf) -> None:
    profile = profile_of(stage_of("lucky", lucky(400)), stage_of("late", late(400), after=("lucky",)))
    for objective in ("variance", "tail"):
        study = study_plan(
            profile,
            PlanSettings(budgets=Budgets(reissue=0.01), created=CREATED, objective=objective, cost="calls"),
        )
        assert study.bounds["lucky"].certainty == 0 < study.bounds["late"].certainty
        [note] = of_kind(study.notes, GainsMayBeChance)
        assert note.stages == ("lucky",)


def test_more_requests_bring_the_timid_curve_closer(stage_of: StageOf, profile_of: ProfileOf) -> None:
    far = []
    for requests in (100, 1000, 10_000):
        profile = profile_of(stage_of("a", np.random.default_rng(3).lognormal(0, 0.8, requests)))
        curves = stage_curves(profile)
        curve, bounds = curves["a"], curve_bounds(profile, curves)["a"]
        shrunk = bounds.shrunk(curve.hull)
        assert (shrunk.hull >= curve.hull - 1e-9).all()
        far.append(float(((shrunk.hull - curve.hull) / curve.variance[0]).mean()))
    assert far == sorted(far, reverse=True)
    assert far[0] > 4 * far[2]


@given(st.integers(0, 2**32), st.integers(1, 8), st.floats(0.001, 0.5))
def test_looking_only_where_budget_goes_finds_what_looking_everywhere_finds(
    seed: int, stages: int, budget: float
) -> None:
    from tests.support.models.profile_fixtures import _profile_of, _stage_of

    rng = np.random.default_rng(seed)
    profile = _profile_of(
        *(_stage_of(f"s{i}", rng.lognormal(rng.normal(), rng.uniform(0, 1.2), 200)) for i in range(stages))
    )
    curves = stage_curves(profile)
    prices = {name: float(rng.uniform(0.1, 1)) for name in curves}
    bounds = curve_bounds(profile, curves)
    everywhere = sumvar({name: bounds[name].shrunk(curves[name].hull) for name in curves}, prices, budget)
    caution = Shrinkage(profile, curves)
    found = sumvar(caution.hulls(prices, budget), prices, budget)
    gained = sum(
        bounds[name].shrunk(curves[name].hull).hull[0]
        - np.interp(share, curves[name].fraction, bounds[name].shrunk(curves[name].hull).hull)
        for name, share in found.fractions.items()
    )
    assert gained == pytest.approx(sum(everywhere.gains.values()), rel=1e-6, abs=1e-12)
    assert found.spent <= budget * (1 + 1e-9)
    assert set(caution.bounds) >= {name for name, share in found.fractions.items() if share > 0}


def test_gains_are_covered_about_as_often_as_they_say(stage_of: StageOf, profile_of: ProfileOf) -> None:
    """For Exp(1) the variance at each share is known: V(r) = 2 - r (3/2 - ln r) - (1 - r/2)²."""
    known = {0.05: 1 - 0.8246, 0.2: 1 - 0.5681, 1.0: 0.75}
    covered = []
    for seed in range(30):
        profile = profile_of(stage_of("a", np.random.default_rng(seed).exponential(1, 2000)))
        bounds = curve_bounds(profile, stage_curves(profile))["a"]
        for share, truth in known.items():
            low, high = bounds.gain_between(share)
            covered.append(low <= truth <= high)
    assert 0.75 <= np.mean(covered) <= 0.99
