"""Page of the report: self-contained, escaped, and true to the measured figures."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import msgspec
import numpy as np
import pytest

from kwiken.apps.demo.setup.blocks import ARMS
from kwiken.apps.report.build import build_page
from kwiken.apps.report.charts.curves import CurveView
from kwiken.apps.report.charts.gantt import GanttBar, GanttRequest, Track
from kwiken.apps.report.model.page import render
from kwiken.apps.report.model.result import (
    ArmCount,
    CutInterval,
    DemoResult,
    Disturbance,
    Expectation,
    Paused,
    Settings,
    Spent,
    StageShare,
    read_result,
)
from kwiken.apps.report.model.statistics import ladder_of
from kwiken.apps.report.sections.headline import of_result
from kwiken.apps.report.sections.sections import _ladder_table
from kwiken.apps.report.sections.views import Material
from kwiken.base.errors import InputError
from kwiken.cli.live.demo import latency_rows
from kwiken.model.plan.plan import Budgets, Costs, Expected, Intervals, Ladder, Plan, SpanMatch, StagePlan
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.model.service.stage import Reissue

HOSTILE = '<script>alert("1")</script>&\'"'
NAMES = ("parse", "lookup", "rank")


def profile_of(names: tuple[str, ...] = NAMES) -> Profile:
    rng = np.random.default_rng(5)
    stages = tuple(
        StageProfile(
            name=name,
            after=names[i - 1 : i] if i else (),
            match=SpanMatch(service="s", operation=name),
            calls_ms=(calls := rng.lognormal(1 + i, 0.4, (400, 4 if i == 1 else 1))),
            censored=np.zeros_like(calls, dtype=bool),
        )
        for i, name in enumerate(names)
    )
    total = np.asarray(sum(stage.latency_ms for stage in stages))
    return Profile(
        service="shop", stages=stages, latency_ms=total, started_s=np.arange(400.0), counts={"skew": 3}
    )


def plan_of(names: tuple[str, ...] = NAMES) -> Plan:
    before = Ladder(p50_ms=20, p90_ms=30, p95_ms=60, p99_ms=180, p999_ms=300)
    after = Ladder(p50_ms=20, p90_ms=28, p95_ms=35, p99_ms=71.5, p999_ms=150)
    bounds = Intervals(after={"p99_ms": (61.25, 84.5)})
    return Plan(
        version=1,
        service="shop",
        created="2025-01-02T03:04:05Z",
        profile="sha256:0",
        budgets=Budgets(reissue=0.05),
        cost=Costs(model="busy", stages=dict(zip(names, (0.2, 0.5, 0.3), strict=True))),
        stages={
            names[1]: StagePlan(reissue=Reissue(after_ms=12.5, fraction=0.04)),
            names[2]: StagePlan(reissue=Reissue(after_ms=33.25, fraction=0.1)),
        },
        expected=Expected(before=before, after=after, spent=Budgets(reissue=0.047), bounds=bounds),
    )


def result_of(names: tuple[str, ...] = NAMES) -> DemoResult:
    plan = plan_of(names)
    assert plan.expected is not None
    before = Ladder(p50_ms=21, p90_ms=31, p95_ms=61, p99_ms=200, p999_ms=310)
    after = Ladder(p50_ms=20, p90_ms=29, p95_ms=36, p99_ms=80, p999_ms=160)
    even = Ladder(p50_ms=20, p90_ms=30, p95_ms=40, p99_ms=130, p999_ms=200)
    return DemoResult(
        version=1,
        service="shop",
        created="2025-01-02T03:04:05Z",
        before=before,
        after=after,
        even=even,
        p95=Ladder(p50_ms=20, p90_ms=29, p95_ms=38, p99_ms=90, p999_ms=170),
        even_for_same=0.031,
        expected=plan.expected.after,
        achieved=Ladder(p50_ms=19, p90_ms=28, p95_ms=35, p99_ms=78, p999_ms=158),
        budgets={"reissue": 0.05},
        peak=0.2,
        spent=Spent(reissue=0.0412, reissue_worst_10s=0.0987, copies=123, retries=4, calls=4567),
        spent_even=Spent(reissue=0.045, reissue_worst_10s=0.05, copies=99, retries=0, calls=4321),
        spent_p95=Spent(reissue=0.049, reissue_worst_10s=0.06, copies=199, retries=0, calls=4325),
        requests=2345,
        failed=0,
        dropped=6,
        settling=78,
        cut_p99={
            "after": CutInterval(cut=0.6, low=0.512, high=0.683),
            "even": CutInterval(cut=0.35, low=0.2, high=0.4),
            "after_even": CutInterval(cut=0.38, low=0.1, high=0.5),
            "after_p95": CutInterval(cut=0.11, low=-0.1, high=0.3),
        },
        arms={arm: ArmCount(requests=700, failed=0, seconds=18.5, replica_cpu=0.42) for arm in ARMS},
        stages=[
            StageShare(name=n, cost=0.3, fraction=0.04, after_ms=12.5, budget=0.5, used=0.0123) for n in names
        ],
        expectation=Expectation(
            before=plan.expected.before,
            after=plan.expected.after,
            bounds={"p99_ms": (61.25, 84.5)},
            spent=0.047,
            coverage=0.9,
        ),
        disturbance=Disturbance(
            calm=False,
            law="By this law.",
            stages={names[0]: Paused(planned=0.034, realised=0.0361, bursts=17)},
        ),
        settings=Settings(
            seconds=60,
            rate=50,
            seed=9,
            learn_s=15,
            rounds=3,
            block_s=5,
            settle_s=0.5,
            order=["before after even"],
            processors=2,
            wall_s=83.2,
        ),
        remarks=["A remark."],
    )


def request_of(names: tuple[str, ...] = NAMES) -> GanttRequest:
    bars = (
        GanttBar(start=5, end=40, outcome="cancelled", shard=3, replica="lookup-0"),
        GanttBar(
            start=17.5, end=40, kind="reissue", outcome="won", shard=3, replica="lookup-1", critical=True
        ),
        *(GanttBar(start=5, end=9, shard=shard) for shard in (0, 1, 2)),
    )
    tracks = (
        Track(name=names[0], start=0, end=5, critical=True, bars=(GanttBar(start=0, end=5, critical=True),)),
        Track(name=names[1], start=5, end=40, critical=True, bars=bars),
        Track(name=names[2], start=40, end=44),
    )
    return GanttRequest(trace_id="ab" * 16, arm="after", total_ms=44.5, tracks=tracks)


def material_of(names: tuple[str, ...] = NAMES) -> Material:
    rng = np.random.default_rng(2)
    arms = {arm: rng.lognormal(3, 0.5, 700) for arm in ARMS}
    curve = CurveView(
        name=names[1],
        share=[0, 0.01, 0.1, 1],
        risk=[1, 0.6, 0.3, 0.2],
        hull=[1, 0.6, 0.3, 0.2],
        chosen=0.04,
        even=0.05,
    )
    return Material(
        profile=profile_of(names),
        plan=plan_of(names),
        result=result_of(names),
        arms=arms,
        requests=(request_of(names),),
        curves=(curve,),
    )


class Page(HTMLParser):
    """Text, ids, references to the outside, and whether every element is closed."""

    void = frozenset({"meta", "br", "link", "img"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in self.void:
            self.open.append(tag)
        self.references += [v or "" for k, v in attrs if k in ("href", "src", "action", "data", "xlink:href")]
        self.ids += [v or "" for k, v in attrs if k == "id"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(material: Material) -> tuple[str, Page]:
    html = render(build_page(material, made="just now"))
    page = Page(html)
    assert page.open == []
    return html, page


def test_the_page_is_whole_and_needs_nothing_from_outside() -> None:
    html, page = page_of(material_of())
    assert all(reference.startswith("#") for reference in page.references)
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert "img" not in page.tags
    assert "http" not in html.replace("http-equiv", "")
    assert "default-src 'none'" in html
    assert "@import" not in html
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html))
    assert len(html) < 1_500_000


def test_every_picture_is_well_formed_and_says_what_it_is() -> None:
    html, _ = page_of(material_of())
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(pictures) == 4
    for picture in pictures:
        root = ET.fromstring(picture)
        assert root.get("aria-label")
        assert "nan" not in picture.lower()
        assert "inf" not in picture.lower()


def test_the_summary_says_what_was_bought_for_how_much_and_what_was_expected() -> None:
    _, page = page_of(material_of())
    for words in (
        "p99 fell from 200 ms to 80.0 ms (\N{MINUS SIGN}60%) for 4.1% extra work, the same p99 as 3.1% spread evenly by the plan's model;",
        "51.2% to 68.3%",
        "At the gateway the plan expected a p99 of 71.5 ms (61.2 to 84.5 ms), and 78.0 ms was achieved (+9%).",
        "It expected to spend 4.7%; it might spend 5.0%.",
        "spread evenly over the stages gave 130 ms (\N{MINUS SIGN}35%) for 4.5% extra work: apportioning it beat spreading it.",
        "A copy at the p95 of every stage, as Envoy or gRPC clients are often set, gave 90.0 ms (\N{MINUS SIGN}55%) for 4.9% extra work: a difference that a run this short cannot tell from chance.",
        "The spend stayed within the budget of 5.0% over the horizon; over its worst 10 s it was 9.9% and stayed within the peak of 20.0%. No request failed.",
    ):
        assert words in page.text


def test_the_summary_does_not_gloss_over_a_loss() -> None:
    result = result_of()
    worse = msgspec.structs.replace(
        result,
        after=msgspec.structs.replace(result.after, p99_ms=220.0),
        spent=msgspec.structs.replace(result.spent, reissue=0.052, reissue_worst_10s=0.21),
        failed=2,
        cut_p99={
            **result.cut_p99,
            "after": CutInterval(cut=-0.1, low=-0.2, high=-0.01),
            "after_even": CutInterval(cut=-0.1, low=-0.3, high=0.1),
        },
    )
    _, page = page_of(replace(material_of(), result=worse))
    assert "p99 rose from 200 ms to 220 ms (+10%)" in page.text
    assert "cannot tell from chance" in page.text
    assert "The spend went past the budget of 5.0%" in page.text
    assert "it was 21.0% and went past the peak of 20.0%. 2 requests failed." in page.text
    lost = msgspec.structs.replace(
        result, cut_p99={**result.cut_p99, "after_even": CutInterval(cut=-0.1, low=-0.3, high=-0.05)}
    )
    _, page = page_of(replace(material_of(), result=lost))
    assert "here spreading it beat apportioning it" in page.text


def test_tables_hold_the_measured_numbers() -> None:
    material = material_of()
    _, page = page_of(material)
    for arm in material.arms.values():
        assert f"{np.percentile(arm, 99):.1f} ms" in page.text
    for words in (
        "3.6%",
        "By this law.",
        "4,567",
        "12.5 ms",
        "1.2%",
        "Seed 9, the only one of this run",
        "42%",
        "A remark.",
        "78 requests",
    ):
        assert words in page.text


def test_what_was_expected_changes_what_was_learned_from_not_what_came_later() -> None:
    result = result_of()  # learned from requests with a p99 of 180 ms; 71.5 expected; 200 measured before
    rows = {row[0]: row for row in latency_rows(result)}
    assert rows["after"][4] == "80.0 ms (\N{MINUS SIGN}60%)"
    assert rows["as learned"][4] == "180 ms"
    assert rows["expected"][4] == "71.5 ms (\N{MINUS SIGN}60%)"  # 64% against the measured one
    assert rows["achieved"][4] == "78.0 ms (+9%)"  # against what was expected
    table = _ladder_table(material_of())
    [p99] = [dict(zip(table.head, row, strict=True)) for row in table.body if row[0] == "p99"]
    assert p99["without the plan, in the profile"] == "180 ms"
    assert p99["with the plan, at the gateway"] == "78.0 ms"
    [row] = [row for row in table.body if row[0] == "p99"]
    assert row[table.head.index("with the plan, at the gateway") + 1] == "+9%"
    assert row[table.head.index("expected by the plan") + 1] == "\N{MINUS SIGN}60%"


def test_what_was_expected_in_the_same_minutes_stands_beside_what_was_achieved() -> None:
    result = result_of()
    assert "same minutes" not in of_result(result)[3]
    promised = result.expectation
    faster = msgspec.structs.replace(promised.after, p99_ms=60.0)
    meanwhile = msgspec.structs.replace(promised, after=faster, bounds={"p99_ms": (50.0, 70.0)})
    result = msgspec.structs.replace(result, meanwhile=meanwhile, achieved_p99_between=(66.0, 90.0))
    told = of_result(result)[3]
    assert "78.0 ms was achieved (+9%, 90% interval 66.0 to 90.0 ms)" in told
    assert "it expects 60.0 ms (50.0 to 70.0 ms); against that the achieved p99 is +30%." in told
    rows = {row[0]: row for row in latency_rows(result)}
    assert rows["meanwhile"][4] == "180 ms"
    assert rows["expected meanwhile"][4] == "60.0 ms (\N{MINUS SIGN}67%)"
    assert rows["achieved"][4] == "78.0 ms (+30%)"
    table = _ladder_table(replace(material_of(), result=result))
    [p99] = [row for row in table.body if row[0] == "p99"]
    assert p99[table.head.index("expected meanwhile")] == "60.0 ms"
    assert p99[table.head.index("with the plan, at the gateway") + 1] == "+30%"


@pytest.mark.parametrize(
    ("drift", "words"),
    [(0.1, None), (-0.1, None), (0.21, "21% slower in the median"), (-0.3, "30% faster in the")],
)
def test_a_machine_that_changed_since_learning_is_told_beside_the_expectation(
    drift: float, words: str | None
) -> None:
    told = of_result(msgspec.structs.replace(result_of(), drift=drift))[3]
    assert ("another state" in told) == (words is not None)
    assert (words or "") in told


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.01, 0.9, "p99 fell from"),
        (-0.9, -0.01, "p99 rose from"),
        (-0.1, 0.5, "p99 did not change clearly: from"),
        (0.0, 0.5, "p99 did not change clearly: from"),
        (math.nan, math.nan, "p99 did not change clearly: from"),
    ],
)
def test_a_direction_is_told_only_where_the_interval_does_not_contain_zero(
    low: float, high: float, words: str
) -> None:
    result = result_of()
    cut = {**result.cut_p99, "after": CutInterval(cut=0.6, low=low, high=high)}
    assert of_result(msgspec.structs.replace(result, cut_p99=cut))[0].startswith(words)


def test_few_requests_tell_no_direction() -> None:
    result = result_of()
    few = {arm: msgspec.structs.replace(count, requests=399) for arm, count in result.arms.items()}
    told = of_result(msgspec.structs.replace(result, arms=few))
    assert told[0].startswith("p99 cannot be told from so few requests: from 200 ms to 80.0 ms")
    assert told[1].endswith("a difference that a run this short cannot tell from chance.")


def test_a_result_without_figures_of_the_gateway_compares_those_of_the_client() -> None:
    earlier = msgspec.structs.replace(result_of(), achieved=Ladder())
    assert of_result(earlier)[3].startswith(
        "The plan expected a p99 of 71.5 ms (61.2 to 84.5 ms), and 80.0 ms"
    )
    assert "achieved" not in {row[0] for row in latency_rows(earlier)}


def test_hostile_names_stay_text() -> None:
    names = (HOSTILE, "b" + HOSTILE, "c" + HOSTILE)
    material = material_of(names)
    assert material.result is not None
    assert material.profile is not None
    html, page = page_of(replace(material, profile=replace(material.profile, service=HOSTILE)))
    assert "script" not in page.tags
    assert HOSTILE in page.text
    for picture in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        ET.fromstring(picture)


@pytest.mark.parametrize("kept", ["profile", "plan", "arms"])
def test_a_part_alone_makes_a_page(kept: str) -> None:
    whole = material_of()
    _, page = page_of(Material(**{kept: getattr(whole, kept)}))
    assert "summary" in page.ids
    assert ("latency" in page.ids) == (kept in ("plan", "arms"))
    assert ("stages" in page.ids) == (kept == "profile")


def test_a_plan_without_measurement_is_called_an_expectation() -> None:
    _, page = page_of(replace(material_of(), result=None, arms={}, requests=()))
    assert "p99 should go from 180 ms to 71.5 ms (\N{MINUS SIGN}60%)" in page.text
    assert "Nothing was measured with the plan yet" in page.text
    # lookup: 0.5 * 0.04 = 0.02, rank: 0.3 * 0.1 = 0.03
    assert "rank 60%; lookup 40%" in page.text


def test_thin_percentiles_are_pointed_out() -> None:
    _, page = page_of(replace(material_of(), arms={"before": np.arange(1.0, 101.0)}))
    assert "p99 and p99.9 rest on fewer than 5 requests" in page.text


def test_nothing_at_all_still_says_so() -> None:
    _, page = page_of(Material())
    assert "Nothing was measured" in page.text


def test_results_go_to_json_and_back() -> None:
    result = result_of()
    text = msgspec.json.encode(result).decode()
    assert read_result(text, where="demo.json") == result
    contract = {"before", "after", "even", "p95", "expected", "budgets", "spent", "requests", "failed"}
    document = msgspec.json.decode(text)
    assert contract <= set(document)
    assert set(document["before"]) == {"p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms"}
    assert {"reissue", "reissue_worst_10s"} <= set(document["spent"])


@pytest.mark.parametrize("change", [{"version": 2}, {"extra": 1}, {"requests": "many"}])
def test_foreign_results_are_refused_with_the_file_named(change: dict[str, object]) -> None:
    document = msgspec.json.decode(msgspec.json.encode(result_of())) | change
    with pytest.raises(InputError, match=r"demo\.json: "):
        read_result(msgspec.json.encode(document).decode(), where="demo.json")


def test_ladder_of_nothing_is_zero() -> None:
    assert ladder_of([]) == Ladder()
    assert ladder_of(np.arange(1, 102.0)).p50_ms == 51.0
