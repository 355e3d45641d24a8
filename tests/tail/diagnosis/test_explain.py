"""Explanation of a profile: the stage at fault stands out, and what-ifs agree with plans."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kwiken.apps.report.charts.heat_map import draw_heat
from kwiken.apps.report.sections.excess import excess_sentence, excess_table
from kwiken.base.errors import InputError
from kwiken.cli.study.explain import _heat_lines, command
from kwiken.model.plan.plan import Budgets
from kwiken.model.profile.codec import profile_to_json
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.profile.subset import part_of
from kwiken.tail.diagnosis.explanation import explain
from kwiken.tail.diagnosis.heat_map import Heat
from kwiken.tail.planning.planner import make_plan
from tests.support.project.commands import refused, run

StageOf = Callable[..., StageProfile]
ProfileOf = Callable[..., Profile]


@pytest.fixture
def faulty(stage_of: StageOf, profile_of: ProfileOf) -> Profile:
    """A chain of three of which the middle one stalls in 2% of its calls."""
    rng = np.random.default_rng(1)
    stalls = np.where(rng.random(4000) < 0.02, rng.uniform(200, 300, 4000), 0.0)
    return profile_of(
        stage_of("first", rng.uniform(9, 11, 4000)),
        stage_of("middle", rng.uniform(9, 11, 4000) + stalls, after=("first",)),
        stage_of("last", rng.uniform(9, 11, 4000), after=("middle",)),
    )


def test_the_stage_at_fault_is_blamed_and_a_budget_helps_there_only(faulty: Profile) -> None:
    story = {stage.name: stage for stage in explain(faulty).stages}
    assert story["middle"].blamed > 0.3
    assert story["middle"].alone > 0.5
    for innocent in ("first", "last"):
        assert story[innocent].blamed < 0.1
        assert story[innocent].alone < 0.05
        assert story[innocent].critical == 1.0


def test_the_excess_of_slow_requests_sums_over_the_stages_where_no_service_is_known(faulty: Profile) -> None:
    for slow in explain(faulty).slow:
        assert slow.requests == round(slow.share * 4000)
        assert slow.services[0].name == "middle"
        assert slow.services[0].share > 0.95
        assert sum(part.excess_ms for part in slow.services) == pytest.approx(slow.excess_ms)
        slowest = np.sort(faulty.latency_ms)[-slow.requests :]
        assert slow.latency_ms == pytest.approx(slowest.mean())


def test_services_are_named_where_the_profile_knows_them(faulty: Profile) -> None:
    """Half of the middle stage's time is a service below it, of which no stage tells."""
    times = np.stack(
        [faulty.latency_ms - 0.5 * faulty.stages[1].latency_ms, 0.5 * faulty.stages[1].latency_ms]
    )
    known = replace(faulty, service_names=("shop", "disk"), service_ms=times.T)
    (one, five) = explain(known).slow
    assert {part.name for part in five.services} == {"shop", "disk"}
    assert five.services[0].share == pytest.approx(0.5, abs=0.05)
    assert one.latency_ms > five.latency_ms > five.typical_ms
    even = replace(known, service_ms=np.stack([faulty.latency_ms * 0 + 1, faulty.latency_ms * 0]).T)
    assert [part.share for part in explain(even).slow[0].services] == [0.0, 0.0], "nothing is in excess"
    assert (five.by, explain(faulty).slow[-1].by) == ("service", "stage")
    assert set(five.leading) == {"shop", "disk"}
    assert explain(even).slow[0].leading == ()


def test_the_command_answers_who_makes_slow_requests_slow_first(faulty: Profile, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(profile_to_json(faulty))
    lines = run("explain", str(path)).stdout.splitlines()
    assert re.fullmatch(
        r"The slowest 5% \(200 requests\) take \S+ ms more than the medians of all stages add up to: "
        r"middle \S+ ms \((9\d|100)%\)\.",
        lines[0],
    )
    assert "stage" in lines[3], "the profile does not say which services did the work"
    whole = next(line for line in lines if line.startswith("all "))
    assert whole.count("100%") == 2
    assert any("ms more: mean over the 40 or 200 slow requests, less" in line for line in lines)


def test_the_rows_stand_in_the_order_of_the_sentence(faulty: Profile) -> None:
    """At the slowest hundredth another service leads than at the slowest 5%, of which the sentence speaks."""
    slow = 100.0 * (faulty.latency_ms >= np.sort(faulty.latency_ms)[-200])
    slowest = 150.0 * (faulty.latency_ms >= np.sort(faulty.latency_ms)[-40])
    times = np.stack([slow, slowest], axis=1)
    known = replace(faulty, service_names=("often", "rarely"), service_ms=times)
    one, five = explain(known).slow
    assert (one.services[0].name, five.services[0].name) == ("rarely", "often")
    assert [row[0] for row in excess_table((one, five)).body] == ["often", "rarely", "all"]
    assert excess_sentence(five).split(": ")[1].startswith("often")
    alone = explain(part_of(faulty, np.arange(1))).slow
    assert "mean over the slow request, less" in excess_table(alone).caption
    assert excess_sentence(alone[-1]).startswith(
        "The slowest 5% (1 request) takes no longer than the medians"
    )


def test_shares_of_the_mean_sum_to_one_over_a_chain(faulty: Profile) -> None:
    assert sum(stage.mean_share for stage in explain(faulty).stages) == pytest.approx(1)


def test_a_plan_is_shown_beside(faulty: Profile) -> None:
    plan = make_plan(faulty, budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z")
    story = {stage.name: stage.planned for stage in explain(faulty, plan).stages}
    assert story["middle"] == max(story.values()) > 0


def test_a_plan_of_other_stages_is_refused(faulty: Profile) -> None:
    plan = make_plan(faulty, budgets=Budgets(reissue=0.05), created="2026-01-01T00:00:00Z")
    shorter = replace(faulty, stages=faulty.stages[:2])
    with pytest.raises(
        InputError, match="the plan's stage 'last' is not in the profile; it has: first, middle"
    ):
        explain(shorter, plan)


def test_parallel_branches_are_distinguished(stage_of: StageOf, profile_of: ProfileOf) -> None:
    slow_left = np.arange(1000) % 4 == 0
    story = explain(
        profile_of(
            stage_of("left", np.where(slow_left, 30.0, 1.0)),
            stage_of("right", np.full(1000, 10.0)),
            stage_of("join", np.ones(1000), after=("left", "right")),
        )
    )
    assert {(path.stages, path.share) for path in story.paths} == {
        (("right", "join"), 0.75),
        (("left", "join"), 0.25),
    }


@pytest.mark.parametrize("budget", [0.0, -1.0, 2.0, float("nan")])
def test_a_budget_must_be_a_share(faulty: Profile, budget: float) -> None:
    with pytest.raises(InputError, match="budget"):
        explain(faulty, budget=budget)


def test_the_command_prints_a_table_and_json(faulty: Profile, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(faulty))
    shown = CliRunner().invoke(command, [str(file)])
    assert shown.exit_code == 0
    assert "first -> middle -> last" in shown.output
    printed = CliRunner().invoke(command, [str(file), "--json"])
    assert printed.exit_code == 0
    assert '"middle"' in printed.stdout


def test_the_effective_stages_are_characterised(
    stage_of: StageOf, profile_of: ProfileOf, tmp_path: Path
) -> None:
    profile = profile_of(
        stage_of("left", np.full(1000, 5.0)),
        stage_of("right", np.full(1000, 5.0)),
        stage_of("join", np.full(1000, 100.0), after=("left", "right")),
    )
    story = explain(profile)
    assert story.effective == ("join",)
    assert {stage.name: stage.in_degree for stage in story.stages} == {"left": 0, "right": 0, "join": 2}
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(profile))
    told = run("explain", str(file))
    assert "effective: 1 of 3 stages; stages that each comes after: 2 in the median, 2 at most" in told.stdout
    assert '"effective":["join"]' in "".join(run("explain", str(file), "--json").stdout.split())
    assert "only" not in told.stderr
    assert "cut short" not in told.stderr


def test_calls_that_were_cut_short_count_with_what_they_would_have_taken(
    stage_of: StageOf, profile_of: ProfileOf, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2)
    whole = rng.exponential(20.0, 4000) + 1.0
    cut = (whole > 30.0) & (rng.random(4000) < 0.5)
    seen = np.where(cut, 30.0, whole)
    stage = replace(stage_of("only", seen), censored=cut[:, None])
    story = explain(profile_of(stage))
    before = float(np.percentile(whole, 99) / np.median(whole))
    assert story.cut_short == cut.sum() > 100
    assert story.tail_ratio == pytest.approx(before, rel=0.1)
    assert float(np.percentile(seen, 99) / np.median(seen)) < 0.95 * before
    assert story.stages[0].cut_short > 0.3
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(profile_of(stage)))
    told = run("explain", str(file)).stderr
    assert f"{cut.sum()} calls were cut short: their times are estimated, as in a plan" in told


@pytest.mark.parametrize("verb", ["explain", "simulate"])
@pytest.mark.parametrize(
    ("requests", "words"), [(1, "only 1 request: "), (40, "only 40 requests: "), (200, None)]
)
def test_a_profile_of_few_requests_is_warned_of(
    verb: str, requests: int, words: str | None, stage_of: StageOf, profile_of: ProfileOf, tmp_path: Path
) -> None:
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(profile_of(stage_of("only", np.arange(1.0, 1.0 + requests)))))
    told = run(verb, str(file)).stderr
    if words is None:
        assert "only" not in told
    else:
        assert f"{words}their slowest tell little, so trace the service for longer" in told


def test_text_and_report_change_their_shade_at_the_same_times_of_the_median() -> None:
    heat = Heat(
        stage="s",
        replicas=("r",),
        edges_s=tuple(float(i) for i in range(7)),
        slow_ms=((1.4, 1.6, 3.0, 6.1, 12.0, 24.0),),
        typical_ms=1.0,
    )
    told = list(_heat_lines((heat,)))
    assert "|.-+*%#|" in told[-1]
    assert "(. below 1.5, - below 3, + below 6, * below 12, % below 24, # above)" in told[-2]
    drawn = str(draw_heat((heat,))[0])
    assert [drawn.count(f"heat heat{i}") for i in range(6)] == [1] * 6


def test_a_row_of_text_and_report_names_its_stage_however_short(
    stage_of: StageOf, profile_of: ProfileOf, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    skipped = np.where(rng.random(300) < 0.7, np.nan, 5.0)
    profile = profile_of(stage_of("a", rng.exponential(9, 300)), stage_of("l", skipped, after=("a",)))
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(profile))
    told = run("explain", str(file)).stdout
    assert "  a all replicas  |" in told
    assert "  l all replicas  |" in told
    assert "inf" not in told  # most requests do not call l, so its median is nothing
    page = tmp_path / "page.html"
    assert run("report", str(file), "-o", str(page)).exit_code == 0
    assert ">a all replicas</text>" in page.read_text()
    assert ">inf<" not in page.read_text()


def disturbed(profile: Profile, share: float, times: float) -> Profile:
    """The profile with the latencies of some whole requests made up."""
    latency = profile.latency_ms.copy()
    latency[: round(share * len(latency))] *= times
    return replace(profile, latency_ms=latency)


def test_requests_that_are_not_what_their_stages_say_are_refused(faulty: Profile, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    file.write_text(profile_to_json(disturbed(faulty, 0.6, 3.0)))
    refused(
        run("explain", str(file)), f"{file}: latency_ms of 60% of the requests .* request 0 has .* ms, and"
    )
    file.write_text(profile_to_json(disturbed(faulty, 1.0, 1.05)))  # the tolerance
    assert run("explain", str(file)).exit_code == 0


def test_inconsistent_requests_are_noted(faulty: Profile, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    off = disturbed(faulty, 0.2, 0.5)
    file.write_text(profile_to_json(off))
    assert explain(off).contradicted == pytest.approx(0.2)
    assert "in 20% of the requests latency_ms is far from" in run("explain", str(file)).stderr
    told = "latency_ms of 20% of the requests"
    for verb in (["plan"], ["simulate"], ["judge", "--blocks", "2"]):
        assert told in run(*verb, str(file)).stderr
    assert explain(faulty).contradicted == 0


def test_a_plan_of_another_profile_or_service_is_noted(
    faulty: Profile, stage_of: StageOf, profile_of: ProfileOf, tmp_path: Path
) -> None:
    profile, other, plan = (str(tmp_path / f"{name}.json") for name in ("profile", "other", "plan"))
    Path(profile).write_text(profile_to_json(faulty))
    assert run("plan", profile, "-o", plan).exit_code == 0
    assert "another profile" not in run("explain", profile, "--plan", plan).stderr
    later = replace(faulty, stages=(replace(faulty.stages[0], busy_ms=1.0), *faulty.stages[1:]))
    Path(profile).write_text(profile_to_json(later))
    assert f"{plan} was made from another profile" in run("explain", profile, "--plan", plan).stderr
    Path(other).write_text(profile_to_json(replace(faulty, service="other")))
    refused(run("explain", other, "--plan", plan), f"{plan}: is a plan for service")


@pytest.mark.parametrize("budgets", [("--reissue", "0.05"), ("--reissue", "0", "--catch-up", "0.05")])
def test_copies_of_stages_not_declared_idempotent_are_named_for_every_lever(
    faulty: Profile, tmp_path: Path, budgets: tuple[str, ...]
) -> None:
    profile, plan = str(tmp_path / "profile.json"), str(tmp_path / "plan.json")
    Path(profile).write_text(profile_to_json(faulty))
    told = run("plan", profile, *budgets, "-o", plan).stderr
    copied = [
        name
        for name, stage in json.loads(Path(plan).read_text())["stages"].items()
        if "reissue" in stage or stage.get("catch_up", {}).get("reissue")
    ]
    assert copied
    assert f"Copies go to: {', '.join(copied)}" in " ".join(told.split())


def test_calls_that_were_cut_short_contradict_nothing(faulty: Profile) -> None:
    last = faulty.stages[-1]
    cut = replace(last, censored=np.ones_like(last.censored), calls_ms=last.calls_ms / 100)
    assert explain(replace(faulty, stages=(*faulty.stages[:-1], cut))).contradicted == 0
