"""The reproduction end to end at a small size, and its exact parts at full size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kwiken.base.errors import InputError
from papers.figures.rows import Findings, Reproduction, run
from papers.kwiken import beyond, combined, held_out, reissues
from papers.kwiken.causes import heat
from papers.kwiken.comparisons import chunks, random_search, scatter
from papers.kwiken.comparisons.random_allocation import of_split, p99_of
from papers.kwiken.late_requests import timeline
from papers.kwiken.partial_answers import incomplete
from papers.kwiken.trial.dag_trial import DagTrial
from papers.sources import reproduction
from papers.worlds.populations.services import POPULATIONS, population

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
        patch.setattr(random_search, "SEARCH_DAGS", 2)
        patch.setattr(random_search, "SEARCH_TRIES", 60)
        patch.setattr(random_search, "SEARCH_REQUESTS", 1000)
        patch.setattr(random_search, "MOVES", (0.5, 0.25))
        patch.setattr(scatter, "SCATTER_ALLOCATIONS", 200)
        patch.setattr(chunks, "CHUNK_REQUESTS", 1500)
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
    wanted = {
        "2.5",
        "5.1",
        "5.2",
        "5.3",
        "5.5a",
        "5.5b",
        "5.7a",
        "5.7b",
        "5.8b",
        "5.8c",
        "5.9",
    }
    others = {"1.3", "2.1.2", "5.2", "5.3.1", "5.4.2", "5.7"}
    assert {f"Figure {number}" for number in wanted} <= figures
    assert {f"Section {number}" for number in others} | {"Table 5.2", "Held out"} <= figures
    assert figures <= {f"Figure {number}" for number in (*wanted, "5.4", "5.6")} | {
        *(f"Section {number}" for number in others),
        *("Equation 5.2", "Table 5.2", "Held out"),
    }
    assert {one.figure for one in found.missing} == {
        "Section 2.1.2",
        "Section 5.4.2",
        "Table 5.1",
        "Table 5.2",
    }
    drawn = {plot.figure for plot in found.plots}
    drawable = ("2.1", "2.5", "5.3", "5.4", "5.5a", "5.5b", "5.7a", "5.8b", "5.9")
    assert {f"Figure {number}" for number in drawable} <= drawn
    assert all(math.isfinite(row.ours) for row in found.rows)
    assert all(len(series.x) == len(series.y) > 0 for plot in found.plots for series in plot.series)


@pytest.mark.slow
def test_the_sum_of_variances_beats_both_even_spreads(found: Findings) -> None:
    cut = {row.metric: row.ours for row in found.rows if row.figure == "Section 5.4.2"}
    for budget in ("1%", "5%"):
        ours = cut[f"mean p99 cut at {budget}, SumVar, %"]
        assert ours > cut[f"mean p99 cut at {budget}, same fraction at every stage, %"]
        assert ours > cut[f"mean p99 cut at {budget}, same budget for every stage, %"]


@pytest.mark.slow
def test_higher_percentiles_gain_more(found: Findings) -> None:
    cuts = [row.ours for row in found.rows if row.figure == "Figure 5.5b" and "order" not in row.metric]
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
    assert cut["extra thread-time, threads at both and priority, %"] > 0
    assert cut["transfers at high priority, threads at both and priority, %"] > 0


def test_the_table_is_exact_and_the_source_is_what_few_queries_give() -> None:
    for place in range(len(incomplete.TABLE)):
        for row in incomplete.table_row(place, 0):
            spread = float(row.note.rsplit(" ", 1)[1])
            assert abs(row.ours - float(row.source)) < 3 * spread


def test_p99_follows_the_sum_of_variances() -> None:
    order, along, below, above_path = scatter.conclude_scatter([scatter.scatter(0)]).rows
    assert order.ours > 0.9
    assert along.ours > 0.9
    assert below.ours < 5
    assert above_path.ours > 50


def test_the_map_of_last_responders_shows_what_was_planted() -> None:
    found = heat.find_causes(0)
    assert found.machines == [heat.SLOW_MACHINE]
    assert found.columns == list(heat.CONGESTED)
    assert found.upgraded > 0.9


def test_descent_on_p99_lowers_it_on_the_requests_it_learns_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_search, "MOVES", (0.5, 0.25))
    rng = np.random.default_rng(5)
    trial = DagTrial.of(population(POPULATIONS["C"], rng)[8], 1500, rng)
    even = of_split(trial, 0.05, [1 / len(trial.stages)] * len(trial.stages))
    found, simulations = random_search.descend(trial, 0.05)
    assert simulations > 1
    assert p99_of(trial, found, on_train=True) <= p99_of(trial, even, on_train=True)
    spent = sum(trial.costs[name] * fraction for name, fraction in found.fractions.items())
    assert spent <= 0.05 + 1e-9


def test_a_reproduction_repeats_for_a_seed() -> None:
    assert timeline.measure(3) == timeline.measure(3)
    assert timeline.measure(3) != timeline.measure(4)


@pytest.mark.parametrize(("name", "seeds"), [("nothing", 1), ("kwiken", 0), ("paragon", 0)])
def test_what_cannot_be_reproduced_is_refused(name: str, seeds: int) -> None:
    with pytest.raises(InputError):
        reproduction(name, seeds=seeds)
