"""ECHO's reproduction: exact rows to the last digit, curves found, orders that hold on a seed."""

from __future__ import annotations

import pytest

from papers.figures.rows import run
from papers.sources import reproduction


@pytest.mark.slow
def test_rows_of_every_figure_and_table_are_there_and_exact_ones_are_exact() -> None:
    found = run(reproduction("echo", seeds=1))
    rows = {(one.figure, one.metric): one.ours for one in found.rows}
    assert rows["Section C.5.2", "transitions at 100 racks, ten groups"] == 1090
    assert rows["Section C.5.2", "transitions at 100 racks, flat"] == 10_000
    assert rows["Section C.5.2", "fewer transitions, %"] == pytest.approx(89.1, abs=0.05)
    assert rows["Section C.5.2", "transitions between 4800 servers, ten groups"] == 231_390
    assert [
        rows["Figure C.1", f"curves found, {name}"] for name in ("gaussian", "exponential", "constant")
    ] == [3, 1, 1]
    assert rows["Figure C.1", "mean deviation of the temporal model, %"] < 4.9
    assert rows["Figure C.14", "totals with the cloud node, % of the system's"] == 100
    assert rows["Figure C.14", "totals without the cloud node, %"] < 90
    assert rows["Figure C.15", "order: each further level deviates less, seeds of 1"] == 1
    figures = {one.figure for one in found.rows}
    assert {f"Figure C.{n}" for n in (1, 11, 12, 14, 15, 16)} <= figures
    for table in ("Table C.3", "Table C.4"):
        assert sum(one.figure == table and "deviation" in one.metric for one in found.rows) == 40
    assert [one.figure for one in found.missing] == ["Real traffic"]
