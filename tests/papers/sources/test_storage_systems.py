"""Rows of the storage model and of BLOC: exact ones, and that every part concludes."""

from __future__ import annotations

import pytest

from papers.bloc.cluster import drawn_world
from papers.bloc.packings import beside_exact, many_sets
from papers.bloc.pairs import formulas
from papers.bloc.schemes import run_scheme
from papers.sources import reproduction
from papers.storage_model.validation import sizes_of_tree


def test_exact_rows_are_exact() -> None:
    found = sizes_of_tree()
    assert found["hierarchical 10"] == 5_242_876
    assert found["flat 10"] == 1_099_511_627_776
    wanted = {0: 100, 0.1: 101, 0.2: 104, 0.29: 108.41, 0.3: 130, 0.5: 150, 0.69: 169, 0.7: 200}
    for share, value in wanted.items():
        assert formulas()[f"A {share:g}"] == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("name", ["storage-model", "bloc"])
def test_parts_without_jobs_of_seeds_conclude(name: str) -> None:
    parts = {part.name: part for part in reproduction(name, seeds=1).parts}
    first = parts["sizes" if name == "storage-model" else "formulas"]
    rows = first.conclude([job(*arguments) for job, arguments in first.jobs]).rows
    assert len(rows) >= 14
    assert all(row.source for row in rows if row.note == "by the formula alone")


def test_no_fit_needs_fewer_nodes_than_the_exact_packing() -> None:
    found = beside_exact(3)
    assert found["exact"] <= found["search"] <= found["first"] <= found["next"] + 1e-9


def test_a_search_needs_a_quarter_fewer_nodes_where_interference_bounds_them() -> None:
    found = many_sets(3)
    assert found["bound"] <= found["search"] < 0.75 * min(found["first"], found["best"])


@pytest.mark.slow
def test_a_day_saves_energy_and_keeps_the_throughput() -> None:
    found = run_scheme(drawn_world(3), "BLOC")
    assert found["saving"] > 2
    assert found["throughput"] > 97
    assert all(found[f"loss {kind}"] < 3 for kind in range(10))
