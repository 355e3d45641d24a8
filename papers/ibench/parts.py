"""Chapter 5 of the source: what can be computed without its machines."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kwiken.allocator.contention.ramp import Ramp
from papers.figures.bounds import Bound
from papers.figures.rows import (
    FigureRow,
    Findings,
    Part,
    Plot,
    PlotSeries,
    RowKind,
    percent,
    row,
    unreproduced,
)
from papers.ibench.coverage import (
    covered_by_draws,
    covered_by_permutation,
    draws_needed,
    worst_residual,
)
from papers.ibench.required import REQUIRED
from papers.ibench.scenario import CHOICES, performance
from papers.ibench.simulated_machine import SimulatedResource, simulate_ramp
from papers.paragon.tables import TABLE_3_2, sensitivities

LINES: Final = 8 * 2**20 // 64  # of the source's last-level cache
LEVELS: Final = np.linspace(0.0, 1.0, 21)
WORKLOADS: Final = 50  # simulated for each seed
WINDOW_MS: Final = 200.0  # of `kwiken probe stage`
GAIN: Final = Bound(10.0, 25.0)  # of performance in scenario 1, percent, by the specification
SIMULATED: Final = "simulated machine with 1% noise, fixed by the specification and not adjusted"
SCENARIO: Final = (
    "synthetic applications of one core each; scores and the slowdown are fixed and not adjusted, while the "
    "source measured programs of several kinds on real machines"
)


def coverage(seed: int) -> dict[str, list[float]]:
    """Share of the cache that is covered at each level, with as many accesses as the level asks for."""
    rng = np.random.default_rng([seed, 1])
    accesses = [round(LINES * level) for level in LEVELS.tolist()]
    return {
        "draws with replacement": [covered_by_draws(LINES, count, rng) / LINES for count in accesses],
        "permutation": [covered_by_permutation(LINES, count) / LINES for count in accesses],
    }


def _conclude_coverage(results: list[dict[str, list[float]]]) -> Findings:
    first = results[0]
    rows = [
        row(
            "Section 5.4",
            f"pressure from a line, {name}, % of the cache",
            percent(worst_residual(LEVELS, np.array(first[name]))),
            source="near-linear",
            kind=RowKind.EXACT,
        )
        for name in first
    ]
    rows += [
        row(
            "Section 5.3",
            f"draws that cover {level:.0%} of 131,072 lines, as a multiple of the linear count",
            round(draws_needed(LINES, level) / (LINES * level), 2),
            source="",
            note="a permutation needs 1.00: the kernels step through one",
            kind=RowKind.EXACT,
        )
        for level in (0.08, 0.5, 0.9, 0.99)
    ]
    series = tuple(PlotSeries(name, LEVELS.tolist(), shares) for name, shares in first.items())
    plot = Plot("Section 5.4", "Lines covered by level", "level", "share of lines", series)
    return Findings(tuple(rows), (plot,))


def knees(seed: int) -> list[tuple[float, float, int]]:
    """Errors of tolerated and caused scores, and windows, for workloads on the simulated machine."""
    rng = np.random.default_rng([seed, 2])
    found = []
    for _ in range(WORKLOADS):
        demand, headroom = rng.uniform(0.0, 0.8), rng.uniform(0.3, 1.2)
        resource = SimulatedResource(demand, max(demand, headroom), rng.uniform(0.5, 3.0))
        scores, windows = simulate_ramp(resource, Ramp(), rng)
        missed = abs(scores.tolerated - resource.tolerated), abs(scores.caused - resource.caused)
        found.append((*missed, windows))
    return found


def _conclude_knees(results: list[list[tuple[float, float, int]]]) -> Findings:
    tolerated, caused, windows = np.array([each for result in results for each in result]).T
    return Findings(
        (
            row(
                "Section 5.4",
                "mean error of a tolerated score, points of 100",
                percent(float(tolerated.mean())),
                note=SIMULATED,
            ),
            row(
                "Section 5.4",
                "mean error of a caused score, points of 100",
                percent(float(caused.mean())),
                note=SIMULATED,
            ),
            row(
                "Section 5.4",
                "time of a ramp, mean, ms",
                round(float(windows.mean()) * WINDOW_MS, 0),
                source="at most 10",
                note="windows of 200 ms: 10 ms hold too few calls of a service to see a loss of 5%, and some "
                "resources cannot be filled in it",
            ),
        )
    )


def scheduled(seed: int) -> dict[str, float]:
    """Mean performance of scenario 1 by choice of a machine."""
    return {name: float(performance(seed, name).mean()) for name in CHOICES}


def _conclude_scheduled(results: list[dict[str, float]]) -> Findings:
    rows: list[FigureRow] = []
    for name in list(CHOICES)[1:]:
        gains = np.array([result[name] / result["least loaded"] - 1 for result in results])
        for what, value, source in (
            ("mean", float(gains.mean()), "15.7"),
            ("highest of the seeds", float(gains.max()), "up to 25"),
        ):
            rows.append(
                row(
                    "Chapter 5, scheduling",
                    f"performance over least loaded, {name}, {what}, %",
                    percent(value),
                    source=source if name == "least mismatch" else "",
                    bound=GAIN if name == "least mismatch" else None,
                    note=SCENARIO,
                )
            )
    return Findings(tuple(rows))


def _conclude_scores(results: list[dict[str, float]]) -> Findings:
    """Errors of completed scores, which the source measures in the chapter on Paragon."""
    note = "two random entries of ten, completed; synthetic matrices with 2% noise and two traits"
    return Findings(
        tuple(
            row(
                "Chapter 3, scores",
                metric,
                round(float(np.mean([result[metric] for result in results])), 2),
                source=source,
                note=note,
            )
            for metric, source in TABLE_3_2.items()
            if metric.startswith("mean error")
        )
    )


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of synthetic populations to average over.
    """
    parts: list[tuple[str, Any, Any, tuple[str, ...]]] = [
        ("coverage", coverage, _conclude_coverage, ("Section 5.3", "Section 5.4")),
        ("knees", knees, _conclude_knees, ("Section 5.4",)),
        ("scenario 1", scheduled, _conclude_scheduled, ("Chapter 5, scheduling",)),
        ("scores", sensitivities, _conclude_scores, ("Chapter 3, scores",)),
    ]
    computed = (
        Part(name, tuple((job, (seed,)) for seed in range(seeds)), conclude, figures)
        for name, job, conclude, figures in parts
    )
    return (*computed, unreproduced(REQUIRED))
