"""Comparisons of schedulers on simulated fleets: rows beside the sources' values, and the orders that hold."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from papers.figures.rows import FigureRow, Findings, Reproduction, over_seeds, row, run
from papers.figures.tables import StatedRow, study
from papers.paragon import scheduling as of_paragon
from papers.quasar import scheduling as of_quasar
from papers.scenarios import Figures, SourcedFigure, levels, orderings, simulated
from papers.worlds.fleet.catalogue import SCENARIOS
from papers.worlds.fleet.managers import CONTESTANTS


def concluded(rows: Iterable[StatedRow], results: list[Figures]) -> tuple[FigureRow, ...]:
    return study("tiny", simulated, len(results), rows).conclude(results).rows


def test_a_part_over_seeds_gives_its_results_by_case() -> None:
    def add(one: int, two: int, seed: int) -> int:
        return one + two + 100 * seed

    def conclude(results: list[list[int]]) -> Findings:
        return Findings(tuple(row("Table 1", f"case {n}", float(sum(r))) for n, r in enumerate(results)))

    part = over_seeds("sums", add, 3, conclude, ((1, 2), (3, 4)), figures=("Table 1",))
    found = run(Reproduction("sums", "sums", (part,)))
    assert [one.ours for one in found.rows] == [309.0, 321.0]


def test_rows_have_medians_spreads_and_the_sources_values() -> None:
    told = SourcedFigure("Figure 1", "QoS kept, %", {"a": "78"})
    results: list[Figures] = [
        {"a": {"QoS kept, %": first}, "b": {"QoS kept, %": other}}
        for first, other in ((70.0, 10.0), (50.0, 50.0), (60.0, 65.0))
    ]
    rows = *levels("tiny", told, "ab"), *orderings("tiny", told, (("a", "b"),))
    first, other, order, lead = concluded(rows, results)
    assert (first.metric, first.ours, first.low, first.high) == ("tiny: QoS kept, a, %", 60.0, 50.0, 70.0)
    assert (first.source, other.source, other.ours) == ("78", "", 50.0)
    assert (order.metric, order.ours, order.verdict) == (
        "order: tiny: QoS kept, a before b, seeds of 3",
        1.0,
        "failed",
    )
    assert (lead.metric, lead.ours) == ("tiny: QoS kept, a before b, points", 0.0)
    assert (lead.low, lead.high) == (-5.0, 60.0)


def test_every_comparison_names_what_exists() -> None:
    figures = simulated("local-phases", ("least-loaded",), 0)["least-loaded"]
    for comparison in of_paragon.COMPARISONS:
        assert comparison.scenario in SCENARIOS
        for told in comparison.told:
            assert told.metric in figures
            assert set(told.source) <= set(of_paragon.MANAGERS)
    assert set(of_paragon.MANAGERS) | set(of_quasar.MANAGERS) <= set(CONTESTANTS)
    assert set(of_quasar.SCENARIOS) <= set(SCENARIOS)
    for told in of_quasar.LEVELS:
        assert told.metric in figures
        assert set(told.source) <= set(of_quasar.MANAGERS)


def test_one_seed_yields_every_row_of_a_comparison() -> None:
    comparison = of_paragon.COMPARISONS[0]
    results = [simulated(comparison.scenario, of_paragon.MANAGERS, 0)]
    rows = concluded(of_paragon.compared(comparison), results)
    ordered = sum(told.metric in of_paragon.ORDERED for told in comparison.told)
    assert ordered >= 1
    levels_of = len(comparison.told) * len(of_paragon.MANAGERS)
    assert len(rows) == levels_of + 2 * ordered * len(of_paragon.PAIRS)
    assert all(np.isfinite(one.ours) for one in rows)


def medians(scenario: str, managers: tuple[str, ...], metric: str) -> dict[str, float]:
    results = [simulated(scenario, managers, seed) for seed in range(8)]
    return {name: float(np.median([each[name][metric] for each in results])) for name in managers}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["local-low", "local-medium"])
def test_knowledge_of_platforms_and_contention_beats_either_alone_over_eight_seeds(scenario: str) -> None:
    found = medians(scenario, of_paragon.MANAGERS, of_paragon.KEPT)
    assert found[of_paragon.ORACLE] > found["paragon"]
    assert found["paragon"] > max(
        found[name] for name in ("interference-only", "heterogeneity-only", "least-loaded")
    )


@pytest.mark.slow
def test_a_margin_keeps_more_targets_at_every_load_than_the_tightest_fit() -> None:
    for scenario in ("local-low", "local-medium", "local-full", "local-phases"):
        found = medians(scenario, (of_paragon.MARGIN, "paragon"), of_paragon.KEPT)
        assert found[of_paragon.MARGIN] > found["paragon"]


@pytest.mark.slow
def test_more_is_kept_at_every_load_by_knowing_more() -> None:
    for scenario in ("local-full", "local-phases"):
        found = medians(scenario, of_paragon.MANAGERS, of_paragon.MEAN)
        assert found[of_paragon.ORACLE] > found["paragon"]
        assert found["paragon"] > found["heterogeneity-only"]


@pytest.mark.slow
def test_only_who_follows_workloads_recovers_from_a_change_of_phase() -> None:
    others = ("interference-only", "heterogeneity-only", "least-loaded")
    results = [simulated("local-phases", ("paragon", *others), seed) for seed in range(8)]
    gained: dict[str, list[float]] = {name: [] for name in results[0]}
    for figures in results:
        for name, of in figures.items():
            before = of["performance before a change of phase, %"]
            at, later = of["performance at a change of phase, %"], of[of_paragon.RECOVERED]
            gained[name].append(later - at)
            if name == "paragon":
                assert at < before
                assert later > 0.97 * before
            else:
                assert later < figures["paragon"][of_paragon.RECOVERED]
    assert np.median(gained["paragon"]) > 1.0
    assert all(np.median(gained[name]) < 0.5 for name in others)


@pytest.mark.slow
def test_managers_of_targets_come_in_the_published_order() -> None:
    found = simulated(of_quasar.SCENARIOS[0], of_quasar.MANAGERS, 0)
    performance = {name: figures[of_quasar.PERFORMANCE.metric] for name, figures in found.items()}
    for better, other in of_quasar.PAIRS:
        assert performance[better] > performance[other], (better, other)
    assert performance[of_quasar.ORACLE] > 98
