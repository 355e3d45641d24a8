"""Charts of the report: scales, lines, layouts and marks."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kwiken.apps.report.charts.curves import CurveView, draw_curve, height_at
from kwiken.apps.report.charts.dag import BOX_H, StageBox, draw_dag, fewer, lay_out
from kwiken.apps.report.charts.gantt import GanttBar, GanttRequest, Track, draw_gantt
from kwiken.apps.report.charts.percentiles import Band, Line, draw_ladder, nines
from kwiken.apps.report.charts.scales import Scale, linear_scale, linear_ticks, log_scale, log_ticks
from kwiken.apps.report.model import number_format
from kwiken.apps.report.model.statistics import cut_with_interval, tail_points


def test_the_axis_gives_each_nine_the_same_room() -> None:
    assert nines(90) == pytest.approx(1)
    assert nines(99) == pytest.approx(2)
    assert nines(99.9) == pytest.approx(3)


def test_the_tail_line_ends_where_requests_are_too_few() -> None:
    values = np.arange(1.0, 1000.0)
    points = tail_points(values)
    assert points[0] == pytest.approx((math.log10(2), 500.0))
    assert points[-1][0] == pytest.approx(3)
    assert points[-1][1] == pytest.approx(np.quantile(values, 0.999))
    assert tail_points(np.array([5.0])) == []


@given(values=st.lists(st.floats(0.01, 1e5), min_size=2, max_size=200))
def test_tail_lines_never_fall(values: list[float]) -> None:
    heights = [y for _, y in tail_points(np.array(values))]
    assert all(b >= a - 1e-9 * a for a, b in itertools.pairwise(heights))


def test_scales_map_ends_and_keep_values_on_the_paper() -> None:
    scale = Scale(1, 100, 0, 200, log=True)
    assert [scale(1), scale(10), scale(100)] == pytest.approx([0, 100, 200])
    assert scale(1e9) == 200
    assert log_scale([], 0, 1)(1.0) >= 0
    assert linear_scale(0, 0, 1)(0) == 0


@given(low=st.floats(0.001, 1e3), ratio=st.floats(2, 1e6))
def test_log_ticks_are_few_and_on_the_scale(low: float, ratio: float) -> None:
    scale = Scale(low, low * ratio, 0, 1, log=True)
    ticks = log_ticks(scale)
    assert all(scale.low <= tick <= scale.high for tick in ticks)
    assert len(ticks) <= 16


def test_a_scale_without_length_has_one_tick() -> None:
    assert linear_ticks(Scale(0.0, 0.0, 0, 1)) == [0.0]


@given(high=st.floats(0.01, 1e6))
def test_linear_ticks_are_few_and_even(high: float) -> None:
    ticks = linear_ticks(linear_scale(high, 0, 1))
    assert 2 <= len(ticks) <= 7
    assert ticks[0] == 0


def test_ladder_marks_each_arm_and_the_band() -> None:
    rng = np.random.default_rng(1)
    lines = [Line(key, key, rng.lognormal(3, 0.4, 2000)) for key in ("before", "after")]
    band = Band(
        "expected", "expected", {"p50_ms": 20, "p99_ms": 50}, {"p50_ms": (19, 21), "p99_ms": (40, 60)}
    )
    root = ET.fromstring(draw_ladder(lines, [band]))
    classes = [e.get("class") for e in root.iter()]
    assert classes.count("line before") == 1
    assert classes.count("line after") == 1
    assert classes.count("band expected") == 1
    assert classes.count("dot before") == 5
    labels = [e.text for e in root.iter() if e.tag == "text"]
    assert "99.9" in labels
    assert "99.99" not in labels


def diamond(*names: str) -> dict[str, tuple[str, ...]]:
    a, b, c, d = names
    return {a: (), b: (a,), c: (a,), d: (b, c)}


def test_layers_go_by_the_longest_path_and_long_edges_get_a_lane() -> None:
    layout = lay_out({"a": (), "b": ("a",), "c": ("b",), "d": ("a", "c")})
    assert [len(layer) for layer in layout.layers] == [1, 2, 2, 1]
    assert len(layout.chains["a", "d"]) == 4
    assert set(layout.chains["a", "d"][1:3]) == set(layout.dummies)


def test_crossings_are_removed_where_they_can_be() -> None:
    layout = lay_out({"a": (), "b": (), "x": ("b",), "y": ("a",)})
    first, second = layout.layers
    assert [first.index("a") < first.index("b")] == [second.index("y") < second.index("x")]


@given(st.data())
def test_boxes_never_overlap(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    parents = {
        f"s{i}": tuple(f"s{p}" for p in sorted(data.draw(st.sets(st.integers(0, i - 1), max_size=3))) if i)
        if i
        else ()
        for i in range(size)
    }
    root = ET.fromstring(
        draw_dag([StageBox(name=name, after=after, cost=0.1) for name, after in parents.items()])
    )
    boxes = [e for e in root.iter("rect") if (e.get("class") or "").startswith("box")]
    spots = [(float(e.get("x", 0)), float(e.get("y", 0)), float(e.get("width", 0))) for e in boxes]
    assert len(spots) == size
    for i, (x, y, width) in enumerate(spots):
        assert x >= 0
        for other_x, other_y, _ in spots[i + 1 :]:
            assert abs(y - other_y) >= BOX_H or abs(x - other_x) >= width


def test_a_large_dag_keeps_the_stages_that_matter_and_their_order() -> None:
    boxes = [
        StageBox(name=f"s{i}", after=(f"s{i - 1}",) if i else (), cost=0.01, budget=0.1 if i % 10 == 0 else 0)
        for i in range(100)
    ]
    kept = fewer(boxes, most=10)
    assert [box.name for box in kept] == [f"s{i}" for i in range(0, 100, 10)]
    assert [box.after for box in kept[1:]] == [(f"s{i}",) for i in range(0, 90, 10)]


def test_the_chosen_point_lies_on_the_hull() -> None:
    view = CurveView(
        name="s", share=[0, 0.1, 1], risk=[1, 0.6, 0.5], hull=[1, 0.5, 0.4], chosen=0.05, even=0.55
    )
    assert height_at(view, 0.05) == pytest.approx(0.75)
    assert height_at(view, 0.55) == pytest.approx(0.45)
    root = ET.fromstring(draw_curve(view))
    classes = [e.get("class") for e in root.iter()]
    assert classes.count("dot after") == 1
    assert classes.count("dot even") == 1
    assert classes.count("dot faint") == 3


def gantt(bars: tuple[GanttBar, ...]) -> list[ET.Element]:
    track = Track(name="lookup", start=0, end=50, bars=bars)
    svg = draw_gantt(GanttRequest(trace_id="0", arm="", total_ms=50, tracks=(track,)), key="k")
    return [e for e in ET.fromstring(svg).iter("rect") if (e.get("class") or "").startswith("bar")]


def test_a_cancelled_call_is_hatched_and_its_copy_is_not() -> None:
    cancelled, copy = gantt(
        (GanttBar(start=0, end=50, outcome="cancelled"), GanttBar(start=20, end=50, kind="reissue"))
    )
    assert (cancelled.get("fill") or "").startswith("url(#hatch-k-primary")
    assert copy.get("fill") == "var(--copy)"
    assert float(copy.get("x", 0)) > float(cancelled.get("x", 0))
    assert copy.get("y") != cancelled.get("y")


def test_dull_shards_share_a_row() -> None:
    bars = tuple(GanttBar(start=0, end=5 + shard, shard=shard, critical=shard == 7) for shard in range(8))
    rows = {bar.get("y") for bar in gantt(bars)}
    assert len(rows) == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01234, "0.012 ms"),
        (1.234, "1.23 ms"),
        (12.34, "12.3 ms"),
        (123.4, "123 ms"),
        (12345, "12.3 s"),
        (0, "0 ms"),
        (math.nan, "\N{EN DASH}"),
        (None, "\N{EN DASH}"),
    ],
)
def test_times_read_well(value: float | None, text: str) -> None:
    assert number_format.ms(value) == text


def test_shares_and_changes_read_well() -> None:
    assert number_format.percent(0.0412) == "4.1%"
    assert number_format.percent(0.00123) == "0.12%"
    assert number_format.percent(0.6, places=0) == "60%"
    assert number_format.change(200, 80) == "\N{MINUS SIGN}60%"
    assert number_format.change(100, 110) == "+10%"
    assert number_format.change(0, 10) == "\N{EN DASH}"
    assert number_format.count(1, "stage") == "1 stage"
    assert number_format.count(1200, "request") == "1,200 requests"


def test_the_cut_and_its_interval() -> None:
    rng = np.random.default_rng(0)
    when = np.arange(3000) / 50
    base, other = rng.lognormal(3, 0.5, 3000), 0.5 * rng.lognormal(3, 0.5, 3000)
    cut = cut_with_interval(base=(when, base), other=(when, other), draws=200)
    assert cut["cut"] == pytest.approx(1 - np.percentile(other, 99) / np.percentile(base, 99))
    assert cut["low"] < cut["cut"] < cut["high"]
    assert 0.35 < cut["low"] < 0.5 < cut["high"] < 0.65
    nothing = cut_with_interval(base=(when, base), other=(np.array([]), np.array([])))
    assert math.isnan(nothing["cut"])


def test_bunches_of_slow_requests_widen_the_interval() -> None:
    rng = np.random.default_rng(0)
    when = np.arange(3000) / 50
    slow = rng.random(3000) < 0.04
    bunched = np.sort(slow)[::-1] & True
    alone = np.where(slow, 200.0, 20.0) + rng.random(3000)
    together = np.where(bunched, 200.0, 20.0) + rng.random(3000)
    other = (when, 20 + rng.random(3000))
    widths = []
    for base in (alone, together):
        cut = cut_with_interval(base=(when, base), other=other, draws=200)
        widths.append(cut["high"] - cut["low"])
    assert widths[1] > widths[0]
