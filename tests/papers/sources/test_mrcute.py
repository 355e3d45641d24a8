"""MRCute's results: exact rows are exact, and every row of the source's list is there."""

from __future__ import annotations

import pytest

from papers.figures.rows import run
from papers.mrcute.executor import SORT, SimulatedCluster, observe
from papers.mrcute.parts import ANCHORS, RACKS
from papers.sources import NAMES, reproduction

FIGURES = (
    *("Table 3.1", "Table 2.2", "Figure 3.2a", "Figure 3.2b", "Figure 2.8a", "Figure 2.8", "Figure 2.9"),
    *("Figure 3.3", "Figure 3.4", "Section 3.2"),
)


@pytest.mark.slow
def test_all_rows_are_there_and_exact_ones_exact() -> None:
    assert "mrcute" in NAMES
    found = run(reproduction("mrcute", seeds=1))
    by_figure = {figure: [row for row in found.rows if row.figure == figure] for figure in FIGURES}
    assert all(by_figure.values())
    exact = [row for row in found.rows if row.metric.startswith("anchor")]
    assert len(exact) == len(ANCHORS) + len(RACKS)
    assert all(row.kind == "exact" and row.verdict == "met" for row in exact)
    assert len(by_figure["Table 3.1"]) == 17
    assert {one.figure for one in found.missing} == {"Section 3.4"}


def test_the_executor_follows_its_resources() -> None:
    import numpy as np

    even = SimulatedCluster(np.full(20, 250.0))

    def seconds(machines: int, bandwidth: float) -> float:
        return observe(SORT, even.first(machines), bandwidth, np.random.default_rng(1), outliers=0).total_s

    assert seconds(20, 250) < seconds(10, 250)
    assert seconds(20, 75) > seconds(20, 250) == seconds(20, 1000)
