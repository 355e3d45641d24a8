"""Rows of every result of the specifications: each is computed, or is told as not reproduced with its reason."""

from __future__ import annotations

from collections import defaultdict

import pytest

from papers.figures.rows import FigureRow, Part, Reproduction, RequiredRow, run, unreproduced
from papers.figures.tables import study
from papers.ibench.parts import REQUIRED as OF_IBENCH, all_parts as parts_of_ibench
from papers.paragon import scheduling as paragon_scheduling
from papers.paragon.crowded_world import in_crowded_world
from papers.paragon.required import REQUIRED as OF_PARAGON
from papers.paragon.selection import selections
from papers.paragon.tables import tables as paragon_tables
from papers.quasar import scheduling as quasar_scheduling
from papers.quasar.phases import phases
from papers.quasar.required import REQUIRED as OF_QUASAR
from papers.quasar.tables import tables as quasar_tables
from papers.scenarios import Figures, simulated

# Numbers of the results, by hand from the specifications.
PARAGON = (
    *(f"H{n}" for n in range(1, 11)),
    *(f"I{n}" for n in range(1, 11)),
    *(f"O{n}" for n in range(1, 8)),
    *(f"R{n}" for n in range(1, 22)),
    *(f"Figure 3.{n}" for n in range(1, 14)),
    *(f"Table 3.{n}" for n in range(1, 4)),
)
QUASAR = (
    *(f"Table 4.2, {one}" for one in ("scale-up", "scale-out", "heterogeneity", "interference")),
    "Table 4.3",
    *(f"C{n}" for n in range(1, 6)),
    *(f"Q1{one}" for one in "abcd"),
    *(f"Q2{one}" for one in "abcd"),
    *(f"Q3{one}" for one in "abc"),
    *(f"Q4{one}" for one in "abc"),
    *(f"Q5{one}" for one in "abcde"),
    *(f"Section 6.5, {one}" for one in ("proactive", "false alarms", "reactive")),
    *(f"Section 6.6, {one}" for one in ("short tasks", "preferences")),
)
IBENCH = tuple(f"R{n}" for n in range(1, 12))


def rows_of(*parts: Part) -> list[FigureRow]:
    return list(run(Reproduction("some", "some", parts)).rows)


def paragon_rows() -> list[FigureRow]:
    """Rows with one seed; those of simulated scenarios from figures that are all 1."""
    figures: Figures = {name: defaultdict(lambda: 1.0) for name in paragon_scheduling.MANAGERS}
    rows = [
        row
        for one in paragon_scheduling.COMPARISONS
        for row in study("one", simulated, 1, paragon_scheduling.compared(one)).conclude([figures]).rows
    ]
    return rows + rows_of(*paragon_tables(1), *selections(1), *in_crowded_world(1))


def quasar_rows() -> list[FigureRow]:
    figures: Figures = {name: defaultdict(lambda: 1.0) for name in quasar_scheduling.MANAGERS}
    stated = quasar_scheduling.compared(quasar_scheduling.SCENARIOS[0])
    rows = list(study("one", simulated, 1, stated).conclude([figures]).rows)
    rows += phases(1)[0].conclude([(1.0, 1.0)] * 5).rows
    return rows + rows_of(*quasar_tables(1))


@pytest.mark.parametrize(
    ("required", "numbers"), [(OF_PARAGON, PARAGON), (OF_QUASAR, QUASAR), (OF_IBENCH, IBENCH)]
)
def test_every_result_of_a_specification_is_listed_once(
    required: tuple[RequiredRow, ...], numbers: tuple[str, ...]
) -> None:
    listed = [one.number for one in required]
    assert len(set(listed)) == len(listed)
    for number in numbers:
        assert any(one == number or one.startswith(f"{number}, ") for one in listed), number


@pytest.mark.slow
@pytest.mark.parametrize("source", ["paragon", "quasar", "ibench"])
def test_a_result_has_rows_or_a_reason(source: str) -> None:
    required = {"paragon": OF_PARAGON, "quasar": OF_QUASAR, "ibench": OF_IBENCH}[source]
    if source == "ibench":
        rows = rows_of(*parts_of_ibench(1))
    else:
        rows = paragon_rows() if source == "paragon" else quasar_rows()
    for one in required:
        shown = [row for row in rows if row.figure == one.figure and row.metric.startswith(one.metric)]
        assert bool(shown) != bool(one.reason), one
        if one.reason:
            assert len(one.reason.split()) >= 5, one


def test_a_missing_result_is_told_with_its_reason() -> None:
    required = (
        RequiredRow("R1", "Figure 1", "shown"),
        RequiredRow("R2", "Figure 2", "lost", "7", "no machine"),
    )
    found = run(Reproduction("some", "some", (unreproduced(required),)))
    assert not found.rows
    ((figure, metric, source, reason),) = [
        (one.figure, one.metric, one.source, one.reason) for one in found.missing
    ]
    assert (figure, metric, source, reason) == ("Figure 2", "lost", "7", "no machine")
