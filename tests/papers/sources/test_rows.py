"""Rows of reproductions: bounds from the source's text, verdicts by kind, one order rule, one figure alone."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given as drawn, strategies as st

from kwiken.base.errors import InputError
from papers.figures.bounds import Bound, stated_bound
from papers.figures.rows import Reproduction, RowKind, RowVerdict, order_row, row, run
from papers.figures.summary import counts, largest_misses, rows_of, summary_page
from papers.figures.tables import PlotLine, PlotOf, exact, level, once, order, study
from papers.sources import NAMES, reproduction


@pytest.mark.parametrize(
    ("source", "inside", "outside"),
    [
        ("below 4.9", (4.9, -3.0), (4.91,)),
        ("< 7", (6.9,), (7.1,)),
        ("3.4 at most", (3.4,), (3.5,)),
        ("up to 2,000", (2000.0,), (2001.0,)),
        ("up to -20", (-20.0, -3.0), (-21.0, 1.0)),
        ("above 200", (201.0,), (199.0,)),
        ("200 or less", (200.0,), (201.0,)),
        ("50 or more", (50.0,), (49.0,)),
        ("15 to 18", (15.0, 18.0), (14.9, 18.1)),
        ("-10 to -33", (-10.0, -33.0), (-9.0, -34.0)),
        ("within 5", (5.0, -5.0), (5.1, -5.1)),
        ("within 10 (aim)", (10.0,), (10.1,)),
        ("+45.7", (45.7, 50.2), (40.0, 51.0)),
        ("-61", (-61.0, -66.0), (-54.0,)),
        (".65", (0.65,), (0.55,)),
        ("3", (3.4, 2.6), (3.6, 2.4)),
        ("1e-06", (1e-06,), (2e-06,)),
        ("3.18 (3.09)", (3.0,), (2.5,)),
        ("about 90", (85.0,), (70.0,)),
    ],
)
def test_a_bound_follows_from_the_text_of_the_source(
    source: str, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    bound = stated_bound(source)
    assert bound is not None
    assert all(bound.holds(value) for value in inside)
    assert not any(bound.holds(value) for value in (*outside, math.nan))


@pytest.mark.parametrize(
    "source", ["", "drawn only", "rises", "most", "-10 to -33, least on W2", "2; 4 and 20%"]
)
def test_words_and_several_values_state_no_bound(source: str) -> None:
    assert stated_bound(source) is None
    assert row("Figure 1", "of something", 3.0, source=source).kind is RowKind.UNSTATED


def test_a_row_is_judged_by_its_kind() -> None:
    met, missed = (row("Figure 1", "x", ours, source="10") for ours in (10.5, 12.0))
    assert (met.kind, met.verdict, missed.verdict) == (RowKind.BOUND, RowVerdict.MET, RowVerdict.MISSED)
    own = row("Figure 1", "x", 12.0, source="10", bound=Bound(high=13.0))
    assert own.verdict is RowVerdict.MET
    assert row("Table 1", "x", 1090.0, source="1090", kind=RowKind.EXACT).verdict is RowVerdict.MET
    assert row("Table 1", "x", 0.000793, source="0.001", kind=RowKind.EXACT).verdict is RowVerdict.MET
    assert row("Table 1", "x", 1150.0, source="1090", kind=RowKind.EXACT).verdict is RowVerdict.MISSED


def test_an_error_may_be_smaller_than_the_sources() -> None:
    assert row("Figure 1", "mean error, %", 0.5, source="3.8").verdict is RowVerdict.MET
    assert row("Figure 1", "mean error, %", 4.5, source="3.8").verdict is RowVerdict.MISSED
    assert row("Figure 1", "share, %", 0.5, source="3.8").verdict is RowVerdict.MISSED


@drawn(st.lists(st.booleans(), min_size=1, max_size=40))
def test_an_order_holds_if_it_does_in_seven_of_eight_seeds(holds: list[bool]) -> None:
    verdict = order_row("Figure 1", "a before b", holds).verdict
    assert verdict is (RowVerdict.HELD if sum(holds) / len(holds) >= 7 / 8 else RowVerdict.FAILED)


def test_one_of_two_seeds_is_no_order() -> None:
    assert order_row("Figure 1", "a before b", [True, False]).verdict is RowVerdict.FAILED


def doubled(number: int, seed: int) -> dict[str, float]:
    """Two figures of a case and a seed."""
    return {"twice": 2.0 * number, "seed": float(seed)}


def constant() -> dict[str, float]:
    """One closed form."""
    return {"one": 1.0}


def tables(seeds: int) -> Reproduction:
    rows = (
        level("Figure 1", "twice of 3", (3, "twice"), "6"),
        level("Figure 1", "seed", (1, "seed"), note="of its own"),
        order("Figure 2", "3 before 1", lambda by: by[3]["twice"] > by[1]["twice"]),
    )
    plot = PlotOf("Figure 3", "lines", "x", "y", (PlotLine("twice", [1, 3], [(1, "twice"), (3, "twice")]),))
    first = study("cases", doubled, seeds, rows, cases=(1, 3), plots=(plot,), note="common", first_seed=10)
    return Reproduction(
        "tiny", "tiny", (first, once("closed", constant, (exact("Table 1", "one", "one", "1"),)))
    )


def test_stated_rows_take_their_values_from_results_by_case_and_seed() -> None:
    found = run(tables(3))
    twice, seed, ordered, closed = found.rows
    assert (twice.ours, twice.verdict, twice.note) == (6.0, RowVerdict.MET, "common")
    assert (seed.ours, seed.low, seed.high, seed.note) == (11.0, 10.0, 12.0, "of its own")
    assert (ordered.ours, ordered.verdict) == (3.0, RowVerdict.HELD)
    assert (closed.kind, closed.verdict) == (RowKind.EXACT, RowVerdict.MET)
    assert found.plots[0].series[0].y == [2.0, 6.0]


def test_one_figure_runs_only_the_parts_that_yield_it() -> None:
    whole = tables(3)
    alone = whole.only("table 1")
    assert [part.name for part in alone.parts] == ["closed"]
    second = run(whole.only("2"))
    assert {one.figure for one in second.rows} == {"Figure 2"}
    assert not second.plots
    with pytest.raises(InputError, match="has no figure '9'; it has Figure 1"):
        whole.only("9")


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_figure_of_a_source_can_be_asked_for_alone(name: str) -> None:
    whole = reproduction(name, seeds=2)
    jobs = {job for part in whole.parts for job in part.jobs}
    for figure in {figure for part in whole.parts for figure in part.figures}:
        chosen = whole.only(figure)
        assert chosen.parts
        assert {job for part in chosen.parts for job in part.jobs} <= jobs


def test_a_figure_of_high_variability_runs_one_scenario_only() -> None:
    alone = reproduction("hcloud", seeds=8).only("19")
    assert sum(len(part.jobs) for part in alone.parts) == 8


def test_a_summary_counts_what_the_results_hold() -> None:
    rows = run(tables(2)).rows
    missed = row("Figure 4", "far", 30.0, source="10")
    every = [*rows, missed, row("Figure 4", "near", 12.0, source="10")]
    read = rows_of(msgspec.json.encode(every), "tiny.json")
    assert counts(*read) == {
        "met": 1,
        "missed": 2,
        "order held": 1,
        "order failed": 0,
        "exact": 1,
        "no value stated": 1,
        "missing": 0,
    }
    assert largest_misses(every)[0] == missed
    page = "\n".join(summary_page({"tiny": read}))
    assert "| tiny | 1 | 2 | 1 | 0 | 1 | 1 | 0 |" in page


@pytest.mark.parametrize("content", [b"{", b'[{"figure": 3}]', b'{"rows": []}'])
def test_results_that_are_no_list_of_rows_are_refused_by_name(content: bytes) -> None:
    with pytest.raises(InputError, match=r"tiny\.json"):
        rows_of(content, "tiny.json")


def test_bounds_of_specifications_are_marked_where_they_are_missed() -> None:
    rows = {
        one.metric: one for one in run(reproduction("ibench", seeds=1).only("Chapter 5, scheduling")).rows
    }
    gain = rows["performance over least loaded, least mismatch, mean, %"]
    assert (gain.kind, gain.verdict == "met") == (RowKind.BOUND, 10 <= gain.ours <= 25)
