"""Stages that must not be reissued, marked by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kwiken.errors import InputError
from kwiken.plan import Budgets, SpanMatch
from kwiken.planning import PlanSettings, make_plan, study_plan
from kwiken.profile import Profile, StageProfile, kept_single
from kwiken.profile.notes import IdempotenceUnknown
from tests.support.notes import of_kind


def _profile() -> Profile:
    rng = np.random.default_rng(3)
    names = ("user:read", "post:write", "timeline:write_home")
    stages = tuple(
        StageProfile(
            name=name,
            match=SpanMatch(service=name.split(":", maxsplit=1)[0], operation=name.split(":")[1]),
            calls_ms=rng.lognormal(2, 1, (2000, 1)),
            censored=np.zeros((2000, 1), dtype=bool),
        )
        for name in names
    )
    latency = np.max([stage.latency_ms for stage in stages], axis=0)
    return Profile(service="social", stages=stages, latency_ms=latency, started_s=np.arange(2000.0))


@pytest.mark.parametrize(
    ("patterns", "copied"),
    [
        ((), {"user:read", "post:write", "timeline:write_home"}),
        (("post:write",), {"user:read", "timeline:write_home"}),
        (("*:write*",), {"user:read"}),
        (("*",), set()),
    ],
)
def test_named_stages_get_no_copies(patterns: tuple[str, ...], copied: set[str]) -> None:
    (profile,) = kept_single([_profile()], patterns)
    plan = make_plan(profile, budgets=Budgets(reissue=0.2), created="2026-01-01T00:00:00Z")
    assert {name for name, stage in plan.stages.items() if stage.reissue is not None} == copied
    assert (profile.digest == _profile().digest) == (not patterns)


def test_a_pattern_that_is_no_stage_is_refused() -> None:
    with pytest.raises(InputError, match=r"no stage is named 'writes'; there are: user:read, post"):
        kept_single([_profile()], ("writes",))


def test_a_plan_names_copies_of_stages_not_declared_idempotent() -> None:
    profile = _profile()
    own = [replace(s, match=SpanMatch(service=f"social-{s.name}", operation=s.name)) for s in profile.stages]
    for known, warned in ((profile, True), (replace(profile, stages=tuple(own)), False)):
        study = study_plan(known, PlanSettings(budgets=Budgets(reissue=0.2), created="2026-01-01T00:00:00Z"))
        copied = tuple(s.name for s in known.stages if study.plan.stages[s.name].reissue is not None)
        assert "post:write" in copied
        assert of_kind(study.notes, IdempotenceUnknown) == ([IdempotenceUnknown(copied)] if warned else [])
