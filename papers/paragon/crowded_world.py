"""Managers of Paragon in the crowded world: kills for want of memory, waits, and the orders there."""

from __future__ import annotations

from typing import Final

from papers.figures.rows import FigureRow, Findings, Part, median_row, order_row, over_seeds
from papers.worlds.crowded.comparison import ORDERED, crowded

LOAD: Final = "crowded-full"
FIRST_SEED: Final = 100
MANAGERS: Final = ("paragon", "interference only", "heterogeneity only", "least loaded", "least used")
NOTE: Final = "a world that is no scheduler's model (docs/allocate/crowded.md); placement only"
Figures = dict[str, dict[str, float]]


def figures(seed: int) -> Figures:
    """Figures by manager, of one draw."""
    return crowded(LOAD, FIRST_SEED + seed, MANAGERS)


def _row(figure: str, metric: str, values: list[float], source: str) -> FigureRow:
    return median_row(figure, f"{LOAD}: {metric}", values, source, NOTE)


def conclude(results: list[list[Figures]]) -> Findings:
    """Rows of the crowded world.

    Args:
        results: by seed, as the only case.
    """
    (group,) = results
    rows = []
    for name in MANAGERS:
        source = "0" if name == "paragon" else "up to 10.4% of applications do not end"
        given_up = [each[name]["given up"] for each in group]
        rows.append(_row("Section 3.5, crashes", f"jobs given up after five kills, {name}", given_up, source))
        kills = [each[name]["kills"] for each in group]
        rows.append(_row("Section 3.5, crashes", f"kills for want of memory, {name}", kills, ""))
    waits = [each["paragon"]["mean wait, s"] for each in group]
    rows.append(
        _row("Section 3.4", "arrival to first second of running, paragon, s", waits, "about a minute")
    )
    for figure in ORDERED:
        for other in MANAGERS[1:]:
            leads = [each["paragon"][figure] - each[other][figure] for each in group]
            words = f"{LOAD}: {figure.removesuffix(', %')}, paragon before {other}"
            rows += [
                order_row("Crowded world", words, [lead > 0 for lead in leads], "before", NOTE),
                median_row("Crowded world", f"{words}, points", leads, note=NOTE),
            ]
    return Findings(tuple(rows))


def in_crowded_world(seeds: int) -> tuple[Part, ...]:
    """Part on the crowded world.

    Args:
        seeds: number of draws; the first has seed 100.
    """
    return (
        over_seeds(
            "crowded world",
            figures,
            seeds,
            conclude,
            figures=("Crowded world", "Section 3.4", "Section 3.5, crashes"),
        ),
    )
