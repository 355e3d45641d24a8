"""Decision of the planner whether a plan accounts for load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.profile import Profile
from kwiken.tail.planning.notes import NoP99Cut, PlannedAtLoad
from kwiken.tail.planning.planner import load_matters, make_plan, study_plan
from kwiken.tail.planning.study import PlanSettings, study_latencies
from kwiken.tail.queueing.load import guard
from kwiken.tail.queueing.load.decompose import QueueSettings
from kwiken.tail.queueing.load.guard import QUIET
from tests.support.models.notes import of_kind
from tests.support.models.queue_profiles import queue_profile, rate_of

SETTINGS = PlanSettings(budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z")


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer calls are enough for what is asked here."""
    monkeypatch.setattr(guard, "CALLS_PER_COMPARISON", 9000)


@pytest.fixture(scope="module")
def busy() -> Profile:
    return queue_profile(rate_of(0.4), requests=2000, seed=3)


@pytest.fixture(scope="module")
def calm() -> Profile:
    return queue_profile(rate_of(QUIET / 2), requests=1000, seed=4)


@pytest.fixture(scope="module")
def blind() -> Profile:
    """Busy times and replicas are not known."""
    return queue_profile(rate_of(0.4), requests=1000, seed=5, known=False)


def test_the_plan_of_a_busy_service_accounts_for_load(busy: Profile) -> None:
    study = study_plan(busy, SETTINGS)
    assert study.load is not None
    [note] = of_kind(study.notes, PlannedAtLoad)
    assert note.factor == 1.0
    assert note.utilisation == pytest.approx(0.4, rel=0.1)
    assert study.plan.expected is not None
    assert study.plan.expected.after.p99_ms == pytest.approx(study.load.simulation.after.p99_ms)
    assert make_plan(busy, budgets=SETTINGS.budgets, created=SETTINGS.created) == study.plan


def test_the_plan_of_a_calm_service_does_not(calm: Profile) -> None:
    study = study_plan(calm, SETTINGS)
    assert study.load is None
    assert not of_kind(study.notes, PlannedAtLoad)
    assert study.plan == study_latencies(calm, SETTINGS).plan


@pytest.mark.parametrize(
    ("which", "settings", "matters"),
    [
        ("busy", {}, True),
        ("busy", {"guarded": False}, False),
        ("busy", {"queues": QueueSettings(replicas={"fetch": 100, "rank": 100})}, False),
        ("busy", {"queues": QueueSettings(rate_per_s=rate_of(0.01))}, False),
        ("calm", {}, False),
        ("calm", {"load": 1.0}, True),
        ("calm", {"queues": QueueSettings(utilisation={"rank": QUIET})}, True),
        ("calm", {"queues": QueueSettings(replicas={"rank": 1})}, True),
        ("blind", {}, False),
        ("blind", {"queues": QueueSettings(utilisation={"rank": 0.3})}, True),
    ],
)
def test_load_matters_where_a_stage_is_known_to_be_busy(
    request: pytest.FixtureRequest, which: str, settings: dict[str, Any], matters: bool
) -> None:
    assert load_matters(request.getfixturevalue(which), replace(SETTINGS, **settings)) == matters


def test_a_guarded_plan_looks_for_no_larger_budget(busy: Profile) -> None:
    """Budgets are tried by replay, which knows no queues, so the note says of them nothing here."""
    study = study_plan(busy, replace(SETTINGS, budgets=Budgets(reissue=1e-4)))
    kinds = [type(note).__name__ for note in study.notes]
    assert kinds[0] == NoP99Cut.__name__
    assert not {"LargerBudgetHelps", "NoBudgetHelps"} & {*kinds}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"load": 0.0}, "load: must be a finite number above 0, not 0.0"),
        ({"load": float("nan")}, "load: must be a finite number above 0, not nan"),
        ({"load": 1.0, "guarded": False}, "load: has no effect on a plan that leaves load out"),
        (
            {"queues": QueueSettings(rate_per_s=5.0), "guarded": False},
            "queues: has no effect on a plan that leaves load out",
        ),
    ],
)
def test_settings_without_effect_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(SETTINGS, **settings)


@pytest.mark.parametrize("field", ["replicas", "utilisation"])
def test_stages_that_the_profile_lacks_are_refused_whether_load_matters_or_not(
    calm: Profile, field: str
) -> None:
    queues = QueueSettings(**{field: {"x": 0.001}})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"{field}: stage 'x' is not in the profile; it has: fetch, rank"):
        study_plan(calm, replace(SETTINGS, queues=queues))


def test_a_stage_without_idle_time_names_the_way_out(busy: Profile) -> None:
    with pytest.raises(InputError, match=r"'rank' would have been busy .*; or leave load out: `guarded`"):
        study_plan(busy, replace(SETTINGS, queues=QueueSettings(replicas={"rank": 1})))
