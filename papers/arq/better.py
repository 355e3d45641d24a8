"""Beyond the source: rules of switching, lines from what arrives, why an order fails, a head that blocks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from papers.arq.runs import (
    BUT_FOR_WAIT,
    KEPT,
    MEAN,
    USED,
    lead,
    level,
    lined_figures,
)
from papers.figures.rows import FigureRow, Findings, Part, median_row, over_seeds
from papers.worlds.waiting.head_of_line import borrowing_waits
from papers.worlds.waiting.rules import ABLATIONS

ARQ, PARAGON = "arq", "paragon"
RULES: Final = ("arq, never switches", "arq, switches at once", "arq, optimal stopping", "arq, printed slack")
OPTIMAL_SUITABLE: Final = "suitable lines, optimal stopping"
LINES: Final = (
    "arq, quantile lines",
    "one line that waits",
    "suitable lines",
    "suitable lines, optimal stopping",
)
KNOWING: Final = ("paragon, true scores", "arq, true scores")
MARGIN: Final = "paragon, with margin"
VARIANTS: Final = (ARQ, PARAGON, MARGIN, *RULES, *LINES, *KNOWING)


def variants(seeds: int) -> tuple[Part, ...]:
    """Every variant on the scenarios of 40 nodes."""
    return tuple(
        over_seeds(
            f"variants, {scenario}",
            lined_figures,
            seeds,
            partial(_varied, scenario),
            ((scenario, VARIANTS, None),),
            figures=("Better (a)",),
        )
        for scenario in ("phases", "oversubscribed")
    )


def _varied(scenario: str, results: list[list[Any]]) -> Findings:
    (runs,) = results
    rows = [
        level("Better (a)", f"{scenario}: {name}, {metric}", runs, name, metric)
        for name in VARIANTS
        for metric in (KEPT, MEAN, USED, BUT_FOR_WAIT)
    ]
    for first, second in (
        ("arq, optimal stopping", ARQ),
        ("arq, quantile lines", ARQ),
        ("suitable lines", ARQ),
        (OPTIMAL_SUITABLE, ARQ),
        (OPTIMAL_SUITABLE, "suitable lines"),
        ("suitable lines", PARAGON),
        ("suitable lines", MARGIN),
        ("arq, true scores", "paragon, true scores"),
    ):
        rows += lead("Better (a)", f"{scenario}: QoS kept", runs, first, second)
        used = [run[first][USED] - run[second][USED] for run in runs]
        rows.append(median_row("Better (a)", f"{scenario}: cores used, {first} over {second}, points", used))
    return Findings(tuple(rows))


def ablations(seeds: int) -> tuple[Part, ...]:
    """Why ARQ is behind Paragon: one property of the fleet changed at a time."""
    return tuple(
        over_seeds(
            f"ablations, {scenario}",
            lined_figures,
            seeds,
            partial(_ablated, scenario),
            tuple((scenario, (ARQ, PARAGON), name) for name in ABLATIONS),
            figures=("Better (b)",),
        )
        for scenario in ("phases", "oversubscribed")
    )


def _ablated(scenario: str, results: list[list[Any]]) -> Findings:
    rows: list[FigureRow] = []
    for name, runs in zip(ABLATIONS, results, strict=True):
        rows += lead("Better (b)", f"{scenario}, {name}: QoS kept", runs, ARQ, PARAGON)
        rows += lead(
            "Better (b)", f"{scenario}, {name}: QoS but for the wait", runs, ARQ, PARAGON, BUT_FOR_WAIT
        )
    return Findings(tuple(rows))


def head(seeds: int) -> Part:
    """The head of a strict line that blocks borrowing, before and after."""
    return over_seeds("head of line", borrowing_waits, seeds, _headed, figures=("Better (c)",))


def _headed(results: list[list[Mapping[str, float]]]) -> Findings:
    (runs,) = results
    return Findings(
        tuple(
            median_row("Better (c)", f"Kueue #4809, {metric}", [run[metric] for run in runs])
            for metric in runs[0]
        )
    )
