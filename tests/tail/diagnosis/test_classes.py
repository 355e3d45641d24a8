"""Effect of a plan on each class of request."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.tail.diagnosis.classes import by_class
from kwiken.tail.planning.planner import make_plan
from kwiken.tail.simulation.trace_driven import simulate

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


@pytest.fixture
def profile(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    """Three in four requests are `small`; `large` ones alone call the stage that is often slow."""
    rng = np.random.default_rng(1)
    large = rng.random(4000) < 0.25
    slow = rng.gamma(20, 0.5, 4000) + rng.exponential(300, 4000) * (rng.random(4000) < 0.05)
    return replace(
        profile_of(
            stage_of("fast", rng.gamma(20, 0.5, 4000)),
            stage_of("slow", np.where(large, slow, np.nan), after=("fast",)),
        ),
        classes=large.astype(np.int64),
        class_names=("small", "large"),
    )


@pytest.fixture
def plan(profile: Profile) -> Plan:
    return make_plan(profile, budgets=Budgets(reissue=0.02), created="2026-01-01T00:00:00Z")


def test_gain_and_cost_by_class(profile: Profile, plan: Plan) -> None:
    small, large = by_class(profile, plan)
    assert (small.name, large.name) == ("small", "large")
    assert small.requests + large.requests == 4000
    assert small.share + large.share == pytest.approx(1)
    assert small.spent + large.spent == pytest.approx(1)
    assert large.spent > 0.8
    assert large.p99_cut > 0.5
    assert abs(small.p99_cut) < 0.05
    whole = simulate(profile, plan, seed=1)
    assert large.before.p99_ms > whole.before.p99_ms > small.before.p99_ms


def test_a_kind_without_requests_is_left_out(profile: Profile, plan: Plan) -> None:
    assert profile.classes is not None
    only = part_of(profile, np.flatnonzero(profile.classes == 1))
    assert only.classes is not None
    assert len(only.classes) == only.requests
    assert [each.name for each in by_class(only, plan)] == ["large"]


def test_a_profile_of_one_kind_has_no_classes(profile: Profile, plan: Plan) -> None:
    with pytest.raises(InputError, match="no classes"):
        by_class(replace(profile, classes=None, class_names=()), plan)


def test_classes_are_kept_in_the_profile(profile: Profile) -> None:
    again = profile_from_json(profile_to_json(profile))
    assert again.digest == profile.digest != replace(profile, classes=None, class_names=()).digest
    assert again.classes is not None
    np.testing.assert_array_equal(again.classes, profile.classes)
    assert again.class_names == ("small", "large")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": [0]}, "classes has 1 requests, and latency_ms has 4000"),
        ({"class_names": []}, "classes has 4000 requests"),
        ({"class_names": ["only"]}, "classes must be numbers of class_names, from 0 to 0"),
        ({"class_names": ["", "x"]}, "names of 1 to"),
        ({"class_names": ["x"] * 1001}, "at most 1000 names"),
    ],
)
def test_classes_that_cannot_be_are_refused(
    profile: Profile, changes: dict[str, object], message: str
) -> None:
    document = json.loads(profile_to_json(profile)) | changes
    with pytest.raises(InputError, match=message):
        profile_from_json(json.dumps(document))
