"""Input of the report: files recognised by content, and the requests chosen for drawing."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kwiken.apps.report.charts.requests import (
    critical_stages,
    pick_requests,
    pick_rescued,
    pick_slow,
    request_of,
    rescued_in,
    spared_ns,
)
from kwiken.apps.report.collect import Wishes, gather
from kwiken.apps.report.inputs import find, kind_of
from kwiken.apps.report.model.rows import LoadRow
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.model.profile.codec import profile_from_json, profile_to_json
from kwiken.model.profile.subset import part_of
from kwiken.otel.write.records import AttemptKind, AttemptRecord, Outcome, RequestRecord, StageRecord
from kwiken.tail.planning.planner import make_plan
from tests.support.models.profiles import small_profile
from tests.support.models.queue_profiles import queue_profile, rate_of
from tests.support.otel.traces import many
from tests.support.project.commands import refused, run

MS = 1_000_000
ZERO = 1_700_000_000 * 1_000_000_000


def attempt(
    start: float,
    end: float,
    *,
    kind: AttemptKind = AttemptKind.PRIMARY,
    outcome: Outcome = Outcome.WON,
    **more: object,
) -> AttemptRecord:
    settings = {"shard": 0, "attempt": 0, "replica": "a-0", "node": "n"} | more
    return AttemptRecord(
        span_id=random.getrandbits(63) + 1,
        kind=kind,
        outcome=outcome,
        start_ns=ZERO + int(start * MS),
        end_ns=ZERO + int(end * MS),
        **settings,  # type: ignore[arg-type]
    )


def stage(
    name: str, after: tuple[str, ...], start: float, end: float, *attempts: AttemptRecord
) -> StageRecord:
    return StageRecord(
        random.getrandbits(63) + 1,
        name,
        after,
        1,
        ZERO + int(start * MS),
        ZERO + int(end * MS),
        attempts=list(attempts),
    )


def request(number: int, *stages: StageRecord, plan: str | None = None) -> RequestRecord:
    end = max(each.end_ns for each in stages) + MS
    return RequestRecord(number, number, None, "shop", ZERO, end, plan=plan, stages=list(stages))


def rescued(number: int, *, at: str = "b", copy_end: float = 8, replica: str = "b-0") -> RequestRecord:
    """a, then b beside c, then d; a copy of b answers at `copy_end`."""
    calls = {
        name: (attempt(2, copy_end - 0.01, outcome=Outcome.CANCELLED, replica=replica),
               attempt(5, copy_end, kind=AttemptKind.REISSUE, replica=f"{name}-1"))
        if name == at else (attempt(2, 4, replica=f"{name}-1"),)
        for name in ("b", "c")
    }  # fmt: skip
    return request(
        number,
        stage("a", (), 0, 2, attempt(0, 2)),
        stage("b", ("a",), 2, copy_end if at == "b" else 4, *calls["b"]),
        stage("c", ("a",), 2, copy_end if at == "c" else 4, *calls["c"]),
        stage("d", ("b", "c"), copy_end, copy_end + 1, attempt(copy_end, copy_end + 1)),
        plan="p1",
    )


def plain(number: int, length: float) -> RequestRecord:
    return request(number, stage("a", (), 0, length, attempt(0, length)))


def test_the_critical_path_follows_the_parent_that_ended_last() -> None:
    assert critical_stages(rescued(1)) == {"a", "b", "d"}
    assert critical_stages(rescued(1, at="c")) == {"a", "c", "d"}


def test_a_rescue_counts_where_the_request_waited_for_the_copy() -> None:
    assert rescued_in(rescued(1)) == "b"
    assert rescued_in(plain(1, 5)) is None
    aside = rescued(1)
    aside.stages[2].end_ns += 20 * MS  # now the request waits for c, whose own call won
    assert rescued_in(aside) is None


def test_the_slow_one_is_slow_but_not_the_freak() -> None:
    records = [plain(number, 1 + number) for number in range(1000)]
    slow = pick_slow(records)
    assert slow is not None
    assert slow.trace_id == 995
    assert pick_slow([]) is None


def test_the_rescued_one_is_of_the_same_stage_if_there_is_one() -> None:
    records = [rescued(1, at="c"), rescued(2, at="b"), plain(3, 100)]
    for where, number in (("b", 2), ("c", 1)):
        found = pick_rescued(records, where)
        assert found is not None
        assert found.trace_id == number
    assert pick_rescued(records, "nowhere") is not None
    assert pick_rescued([plain(3, 100)], "b") is None


def test_of_several_rescued_the_one_spared_most_is_shown_with_its_pause() -> None:
    zero = ZERO / 1e9
    pauses = {"b-0": [(zero + 0.001, zero + 0.108)], "b-9": [(zero + 0.003, zero + 0.050)]}
    records = [rescued(1, replica="b-9"), rescued(2), rescued(3, replica="b-7")]
    assert spared_ns(records[1], "b", pauses) == pytest.approx(100 * MS, rel=1e-3)
    found = pick_rescued(records, "b", pauses)
    assert found is not None
    assert found.trace_id == 2
    drawn = request_of(found, "after", pauses)
    hung = next(bar for track in drawn.tracks for bar in track.bars if bar.outcome == "cancelled")
    assert hung.paused[0] == pytest.approx((2, 108), abs=0.01)


def test_requests_are_drawn_in_milliseconds_from_their_start() -> None:
    drawn = request_of(rescued(7), "after")
    assert [track.name for track in drawn.tracks] == ["a", "b", "c", "d"]
    assert drawn.total_ms == pytest.approx(10)
    assert [track.critical for track in drawn.tracks] == [True, True, False, True]
    copy = drawn.tracks[1].bars[1]
    assert (copy.kind, copy.start, copy.end, copy.critical) == ("reissue", 5, 8, True)
    before, after = pick_requests({"before": [plain(1, 50)], "after": [rescued(2)]})
    assert (before.arm, after.arm) == ("before", "after")


Make = Callable[[str], Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    profile = small_profile()
    plan = make_plan(profile, budgets=Budgets(reissue=0.05), created="2025-01-01T00:00:00Z")
    rows = [
        LoadRow(intended_s=1.0 * n, latency_ms=5.0 + n, status=200, trace_id=f"{n:032x}", arm="before")
        for n in range(30)
    ]
    contents = {
        "profile.json": profile_to_json(profile),
        "plan.json": plan.to_json(),
        "plan-even.json": plan.to_json(),
        "load.jsonl": "".join(msgspec.json.encode(row).decode() + "\n" for row in rows),
        "traces.json": many(60),
    }

    def write(name: str) -> Path:
        path = tmp_path / name
        path.write_text(contents[name], encoding="utf-8")
        return path

    return write


def test_files_are_known_by_what_they_hold(make: Make, tmp_path: Path) -> None:
    for name, kind in (
        ("profile.json", "profile"),
        ("plan.json", "plan"),
        ("load.jsonl", "load"),
        ("traces.json", "traces"),
    ):
        assert kind_of(make(name).rename(tmp_path / f"other-{name}")) == kind
    shuffled = tmp_path / "shuffled.json"
    shuffled.write_text(json.dumps(dict(reversed(json.loads(make("plan.json").read_text()).items()))))
    assert kind_of(shuffled) == "plan"


def test_a_folder_gives_all_that_a_demo_left(make: Make, tmp_path: Path) -> None:
    for name in ("profile.json", "plan.json", "plan-even.json", "load.jsonl"):
        make(name)
    found = find([str(tmp_path)])
    assert found.profile == tmp_path / "profile.json"
    assert found.traces == []
    material = gather(found, Wishes())
    assert material.profile is not None
    assert material.plan is not None
    assert material.even is not None
    assert len(material.arms["before"]) == 30
    assert {curve.name for curve in material.curves} == {"spell", "lookup"}
    assert all(curve.risk[0] == 1.0 for curve in material.curves)


def test_traces_alone_give_profile_plan_and_expectation(make: Make, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    result = run("report", str(make("traces.json")), "-o", str(out), "--reissue", "0.1")
    assert result.exit_code == 0, result.stderr
    text = out.read_text(encoding="utf-8")
    assert "shop: expected effect of a plan" in text
    assert "one was made for 10.0% extra work" in text
    assert 'id="curves"' not in text, "no name says that a call reads, so no stage may be copied"


def test_requests_without_an_answer_count_as_the_time_out(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    lines = [
        {
            "intended_s": 1,
            "start_lag_ms": 0.1,
            "latency_ms": 5,
            "status": 200,
            "error": None,
            "trace_id": "0a",
        },
        {
            "intended_s": 2,
            "start_lag_ms": 0.1,
            "latency_ms": 7,
            "status": 503,
            "error": "status 503",
            "trace_id": "0b",
        },
        {
            "intended_s": 3,
            "start_lag_ms": None,
            "latency_ms": None,
            "status": 0,
            "error": "dropped",
            "trace_id": "",
        },
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    material = gather(find([str(path)]), Wishes())
    assert np.allclose(material.arms["mine"], [5, 10_000, 10_000])
    assert any("2 requests had no answer" in note for note in material.notes)


@pytest.mark.slow
def test_a_report_makes_the_plan_that_the_library_and_the_command_make(tmp_path: Path) -> None:
    """All three account for the load of a busy service."""
    profile = queue_profile(rate_of(0.4), requests=1000, seed=3)
    path, out = tmp_path / "profile.json", tmp_path / "plan.json"
    path.write_text(profile_to_json(profile))
    material = gather(find([str(path)]), Wishes(reissue=0.05))
    assert material.plan is not None
    assert any(note.startswith("Planned for ") for note in material.notes)
    again = profile_from_json(path.read_text())
    library = make_plan(again, budgets=Budgets(reissue=0.05), created=material.plan.created)
    assert library == material.plan
    assert run("plan", str(path), "--reissue", "0.05", "-o", str(out)).exit_code == 0
    command = Plan.from_json(out.read_text())
    assert msgspec.structs.replace(command, created=library.created) == library


def test_stdout_takes_the_page(make: Make) -> None:
    result = run("report", str(make("load.jsonl")), "-o", "-")
    assert result.exit_code == 0
    assert result.stdout.startswith("<!doctype html>")


def test_a_profile_without_requests_is_refused(tmp_path: Path) -> None:
    path, page = tmp_path / "empty.json", tmp_path / "page.html"
    path.write_text(profile_to_json(part_of(small_profile(20), np.arange(0))))
    refused(run("report", str(path), "-o", str(page)), f"{path}: the profile has no requests")
    assert not page.exists()


def test_a_profile_that_contradicts_itself_is_named(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    profile = small_profile(200)
    path.write_text(profile_to_json(replace(profile, latency_ms=3 * profile.latency_ms)))
    refused(run("report", str(path), "-o", str(tmp_path / "page.html")), f"{path}: latency_ms of 100% of the")


def test_bad_sources_are_one_line_that_names_them(make: Make, tmp_path: Path) -> None:
    refused(run("report", str(tmp_path / "none.json")), r"none\.json: there is no such file")
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(run("report", str(empty)), r"empty: holds no files")
    first = make("profile.json")
    second = first.with_name("again.json")
    second.write_text(first.read_text())
    refused(run("report", str(first), str(second)), r"again\.json: is a second profile")
    records = make("load.jsonl")
    records.write_text(records.read_text() + '{"intended_s": "soon"}\n')
    refused(run("report", str(records)), r"load\.jsonl:31: is no record")
    demo = tmp_path / "demo.json"
    demo.write_text('{"version": 7, "disturbance": {}}')
    refused(run("report", str(demo)), r"demo\.json: ")
    other = tmp_path / "other.json"
    other.write_text(profile_to_json(small_profile(service="shop")))
    refused(
        run("report", str(other), str(make("plan.json"))),
        r"different services: profile 'shop', plan 'search'",
    )
    third = tmp_path / "third.json"
    third.write_text(make("plan.json").read_text())
    refused(run("report", str(make("plan.json")), str(third)), "third.json: a report has one plan")
