"""The reproduction end to end at a small size, and its exact parts at full size."""

from __future__ import annotations

import math

import pytest

from kwiken.base.errors import InputError
from kwiken.lab.reproduction import reproduction, run
from kwiken.lab.reproduction.kwiken import beyond, combined, held_out, incomplete, reissues, search
from kwiken.lab.reproduction.kwiken.late_requests import timeline
from kwiken.lab.reproduction.rows import Findings, Reproduction

# The whole reproduction takes a minute and more however small: on a busy machine longer than a test usually may.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def found() -> Findings:
    """Everything at a small size; levels are checked by the full run only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reissues, "REQUESTS", 1500)
        patch.setattr(combined, "REQUESTS", 600)
        patch.setattr(combined, "TUNED_ON", 200)
        patch.setattr(combined, "RESPONDERS", 80)
        patch.setattr(beyond, "REQUESTS", 1500)
        patch.setattr(beyond, "CALLS", 20_000)
        patch.setattr(search, "SEARCH_DAGS", 2)
        patch.setattr(search, "SEARCH_TRIES", 60)
        patch.setattr(timeline, "REQUESTS", 20_000)
        patch.setattr(held_out, "EARLIER", 1200)
        patch.setattr(held_out, "LATER", 2000)
        patch.setattr(held_out, "CASES", (("C", 0.05, 9), ("C", 0.01, 15)))
        whole = reproduction("kwiken", seeds=1)
        few = [part for part in whole.parts if part.name != "stop rules"]
        return run(Reproduction(whole.name, whole.title, tuple(few)))


@pytest.mark.slow
def test_every_figure_with_data_has_rows_and_finite_values(found: Findings) -> None:
    figures = {row.figure for row in found.rows}
    wanted = {"2.2", "2.3", "2.4", "2.5", "5.1", "5.3", "5.5", "5.5b", "5.7a", "5.7b", "5.8", "5.8c", "5.9"}
    assert {f"Figure {number}" for number in wanted} | {"Table 5.2", "Section 5.6", "Held out"} <= figures
    drawn = {plot.figure for plot in found.plots}
    drawable = ("2.1", "2.2", "2.3", "2.4", "2.5", "5.3", "5.4", "5.5a", "5.5b", "5.7a", "5.8", "5.9")
    assert {f"Figure {number}" for number in drawable} <= drawn
    assert all(math.isfinite(row.ours) for row in found.rows)
    assert all(len(series.x) == len(series.y) > 0 for plot in found.plots for series in plot.series)


@pytest.mark.slow
def test_the_sum_of_variances_beats_both_even_spreads(found: Findings) -> None:
    cut = {row.metric: row.ours for row in found.rows if row.figure == "Section 5.6"}
    for budget in ("1%", "5%"):
        ours = cut[f"mean p99 cut at {budget}, SumVar, %"]
        assert ours > cut[f"mean p99 cut at {budget}, same fraction at every stage, %"]
        assert ours > cut[f"mean p99 cut at {budget}, same budget for every stage, %"]


@pytest.mark.slow
def test_higher_percentiles_gain_more(found: Findings) -> None:
    cuts = [row.ours for row in found.rows if row.figure == "Figure 5.5b"]
    *cuts, at_a_smaller_budget = cuts
    assert len(cuts) == 5
    assert cuts == sorted(cuts)
    assert at_a_smaller_budget < cuts[0]


@pytest.mark.slow
def test_gain_falls_as_copies_hang_together_with_their_calls(found: Findings) -> None:
    cuts = [row.ours for row in found.rows if "copies' correlation" in row.metric]
    assert len(cuts) == 5
    assert cuts == sorted(cuts, reverse=True)
    assert 0.4 < cuts[3] / cuts[0] < 0.8


@pytest.mark.slow
def test_threads_and_priority_together_beat_either_alone(found: Findings) -> None:
    cut = {row.metric: row.ours for row in found.rows if row.figure == "Figure 5.7a"}
    both = cut["p99 cut, threads at both and priority, %"]
    assert both > cut["p99 cut, threads at both, %"] + cut["p99 cut, priority only, %"]
    assert cut["p99 cut, threads at both, %"] >= cut["p99 cut, threads at look-up, %"]
    assert cut["p99 cut, threads at both, %"] >= cut["p99 cut, threads at snippets, %"]


def test_the_table_is_exact_and_the_source_is_what_few_queries_give() -> None:
    for place in range(len(incomplete.TABLE)):
        for row in incomplete.table_row(place, 0):
            spread = float(row.note.rsplit(" ", 1)[1])
            assert abs(row.ours - float(row.source)) < 3 * spread


def test_p99_follows_the_sum_of_variances() -> None:
    order, below = search.conclude_scatter([search.scatter(0)]).rows
    assert order.ours > 0.9
    assert below.ours < 5


def test_a_reproduction_repeats_for_a_seed() -> None:
    assert timeline.measure(3) == timeline.measure(3)
    assert timeline.measure(3) != timeline.measure(4)


@pytest.mark.parametrize(("name", "seeds"), [("nothing", 1), ("kwiken", 0), ("paragon", 0)])
def test_what_cannot_be_reproduced_is_refused(name: str, seeds: int) -> None:
    with pytest.raises(InputError):
        reproduction(name, seeds=seeds)
