"""`kwiken judge`: tables, JSON, a page, and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.tail.judging.judgement_document import Judgement
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings
from tests.support.otel.span_trees import jaeger_json
from tests.support.project.commands import refused, run
from tests.support.runtime.gateway_traces import shop_request, spans_of

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


@pytest.fixture
def folder(stage_of: StageOf, profile_of: ProfileOf, tmp_path: Path) -> Path:
    """A profile, a plan for it, and a plan for more than its budget."""
    rng = np.random.default_rng(1)
    stalls = 200.0 * (rng.random(2000) < 0.03)
    profile = profile_of(
        stage_of("a", rng.lognormal(1, 0.5, 2000) + stalls),
        stage_of("b", rng.lognormal(1, 0.3, 2000), after=("a",)),
    )
    plan = study_plan(profile, PlanSettings(budgets=Budgets(reissue=0.03), created="")).plan
    small = json.loads(plan.to_json())
    small["budgets"]["reissue"] = 0.001
    (tmp_path / "profile.json").write_text(profile_to_json(profile))
    (tmp_path / "plan.json").write_text(plan.to_json())
    (tmp_path / "small.json").write_text(json.dumps(small))
    return tmp_path


def test_a_plan_is_shown_beside_the_other_ways(folder: Path) -> None:
    shown = run("judge", str(folder / "plan.json"), str(folder / "profile.json"))
    assert shown.exit_code == 0
    for words in ("the plan", "all stages alike", "in hindsight", "correlated 0.5", "p99.9 cut", "denied"):
        assert words in shown.stdout
    assert "2000 requests, budget 3.00%" in shown.stdout
    assert "passed" not in shown.stderr


def test_a_passed_budget_is_said(folder: Path) -> None:
    told = run("judge", str(folder / "small.json"), str(folder / "profile.json")).stderr
    assert "the plan passed its budget" in told
    assert "of 0.10%, because the ledger denies none of the first 3 copies a second" in told
    assert "the ledger denied" in told


def test_a_simulation_says_that_a_budget_is_passed(folder: Path) -> None:
    profile = str(folder / "profile.json")
    told = run("simulate", profile, "--plan", str(folder / "small.json"))
    assert "the plan passed its budget" in told.stderr
    assert "passed its budget" not in run("simulate", profile, "--plan", str(folder / "plan.json")).stderr


def test_json_has_the_whole_judgement_and_the_page_draws_it(folder: Path) -> None:
    plan, profile, page = (str(folder / name) for name in ("plan.json", "profile.json", "page.html"))
    found = run("judge", plan, profile, "--from", profile, "--json", "-o", page)
    assert found.exit_code == 0
    judgement = json.loads(found.stdout)
    assert set(judgement) == set(Judgement.__struct_fields__)
    assert [arm["way"] for arm in judgement["arms"][:3]] == ["plan", "even", "hindsight"]
    drawn = Path(page).read_text()
    assert "<svg" in drawn
    assert "://" not in drawn.replace("http://www.w3.org", "")
    assert drawn.count("<circle") == len(judgement["stretches"]) * (4 + 3)


def test_a_plan_judged_on_the_requests_that_it_was_learned_from_is_told_so(folder: Path) -> None:
    whole = profile_from_json((folder / "profile.json").read_text(), where="profile.json")
    later = folder / "later.json"
    later.write_text(profile_to_json(part_of(whole, np.arange(1000, 2000))))
    plan, known, page = (str(folder / name) for name in ("plan.json", "profile.json", "page.html"))
    words = "learned from these very requests"
    for files, in_sample in (
        ((plan, known), True),
        ((plan, str(later)), False),
        ((plan, known, "--blocks", "2"), False),
    ):
        found = run("judge", *files, "--json", "-o", page)
        assert json.loads(found.stdout)["in_sample"] is in_sample
        assert (words in found.stderr) is in_sample
        assert (words in Path(page).read_text()) is in_sample


def test_blocks_need_no_plan_and_take_its_budget_and_ledger_if_there_is_one(folder: Path) -> None:
    profile = str(folder / "profile.json")
    alone = json.loads(run("judge", profile, "--blocks", "4", "--reissue", "0.01", "--json").stdout)
    assert (alone["budget"], len(alone["stretches"])) == (0.01, 3)
    strict = json.loads((folder / "plan.json").read_text())
    strict["ledger"] = {"horizon_s": 600.0, "peak_factor": 1.0, "floor_per_s": 0.0}
    (folder / "strict.json").write_text(json.dumps(strict))
    given = json.loads(run("judge", str(folder / "strict.json"), profile, "--blocks", "2", "--json").stdout)
    assert given["budget"] == Plan.from_json((folder / "plan.json").read_text()).budgets.reissue
    assert given["ledger"] == strict["ledger"]
    shown = run("judge", profile, "--blocks", "3")
    assert "planned block by block" in shown.stdout


def test_several_profiles_are_judged_together_with_a_row_for_each(folder: Path) -> None:
    whole = profile_from_json((folder / "profile.json").read_text(), where="profile.json")
    halves = np.array_split(np.argsort(whole.started_s, kind="stable"), 2)
    monday, tuesday = (folder / name for name in ("monday.json", "tuesday.json"))
    monday.write_text(profile_to_json(part_of(whole, halves[0])))
    tuesday.write_text(profile_to_json(part_of(whole, halves[1][:700])))
    files = (str(folder / "plan.json"), str(tuesday), str(monday))  # in any order
    found = json.loads(run("judge", *files, "--json", "-o", str(folder / "page.html")).stdout)
    assert found["requests"] == 1700
    assert [(each["recording"], each["requests"]) for each in found["stretches"]] == [
        ("monday.json", 1000),
        ("tuesday.json", 700),
    ]
    shown = run("judge", *files)
    assert "p99 by profile" in shown.stdout
    assert shown.stdout.index("monday.json") < shown.stdout.index("tuesday.json")
    assert "tuesday.json" in (folder / "page.html").read_text()
    refused(run("judge", str(monday), str(tuesday), "--blocks", "2"), "tuesday.json is a second one")


def test_profiles_of_one_name_are_told_apart_by_their_folders(folder: Path) -> None:
    for day in ("1", "2"):
        (folder / day).mkdir()
        (folder / day / "profile.json").write_text((folder / "profile.json").read_text())
    files = [str(folder / day / "profile.json") for day in ("1", "2")]
    found = json.loads(run("judge", str(folder / "plan.json"), *files, "--json").stdout)
    assert [each["recording"] for each in found["stretches"]] == files


def test_what_cannot_be_judged_is_refused(folder: Path) -> None:
    plan, profile = str(folder / "plan.json"), str(folder / "profile.json")
    refused(run("judge", profile), "there is no plan among the files; give one, or --blocks")
    refused(run("judge", plan), "there are no traces and no profile among the files")
    refused(run("judge", plan, plan, profile), "is a second plan")
    refused(run("judge", plan, profile, profile), "profile.json: is given twice")
    refused(run("judge", plan, profile, "--reissue", "0.1"), "--reissue: needs --blocks")
    refused(
        run("judge", plan, profile, "--blocks", "2", "--from", profile), "--from: does not go with --blocks"
    )
    refused(run("judge", plan, profile, "--root", "x"), "--root: is for traces")
    refused(run("judge", plan, profile, "--sampled", "0"), "--sampled")
    refused(run("judge", plan, str(folder / "none.json")), "none.json")
    other = json.loads((folder / "plan.json").read_text())
    other["service"] = "another"
    (folder / "other.json").write_text(json.dumps(other))
    refused(
        run("judge", str(folder / "other.json"), profile), "is a plan for service 'another'; the requests of"
    )
    traces = folder / "traces" / "day.json"
    traces.parent.mkdir()
    traces.write_text(jaeger_json(spans_of([shop_request(n) for n in range(30)])))
    told = "are of 'shop-service'; --from PROFILE takes the plan's kind of requests, --kind NAME another"
    refused(run("judge", plan, str(traces)), told)
