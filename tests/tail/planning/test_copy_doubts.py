"""Doubts of a plan: what speaks against copies is decided once, kept in the plan, and worded alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kwiken.apps.console.notes import plan_doubts
from kwiken.apps.report.sections.headline import summary
from kwiken.apps.report.sections.views import Material
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.profile import CopyDependence, Profile, StageProfile
from kwiken.tail.planning.planner import make_plan

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


def test_every_doubt_is_kept_in_the_plan_and_said_by_the_report(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    rng = np.random.default_rng(1)
    calls = {name: rng.uniform(2, 3, 600) + 60 * (rng.random(600) < 0.03) for name in "abcd"}
    known = {
        "a": {"replicas": 1},
        "b": {"dependence": CopyDependence(together=True, period_s=60.0)},
        "c": {"dependence": CopyDependence(replica="c-2")},
        "d": {"dependence": CopyDependence(attribute="tenant.id", values=("big",))},
    }
    stages = [replace(stage_of(name, calls[name]), **known[name]) for name in "abcd"]  # type: ignore[arg-type]
    made = make_plan(profile_of(*stages), budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z")
    plan = Plan.from_json(made.to_json())
    told = plan_doubts(plan)
    assert told[:4] == [
        "all calls of a went to one replica, so it gets no copies",
        "all replicas of b are slow at the same times, every 60 s",
        "most slow calls of c went to one replica, c-2",
        "the attribute tenant.id (big) parts the slow requests of d from the fast ones",
    ]
    page = " ".join(summary(Material(plan=plan)))
    assert all(words[1:] in page for words in told)


def test_a_steady_service_has_no_doubt_but_that_copies_cut_nothing(
    stage_of: StageOf, profile_of: ProfileOf
) -> None:
    steady = stage_of("a", np.full(600, 5.0))
    plan = make_plan(profile_of(steady), budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z")
    copied = plan.stages["a"].reissue is not None
    assert any("not expected to cut p99" in words for words in plan_doubts(plan)) == copied
