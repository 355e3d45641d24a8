"""Managers of Paragon in the crowded world: kills for want of memory, waits, and the orders there."""

from __future__ import annotations

from typing import Final

import numpy as np

from papers.rows import Findings, Part, ReproducedRow, over_seeds
from papers.worlds.crowded.comparison import ORDERED, crowded, paired

LOAD: Final = "crowded-full"
FIRST_SEED: Final = 100
MANAGERS: Final = ("paragon", "interference only", "heterogeneity only", "least loaded", "least used")
NOTE: Final = "a world that is no scheduler's model (docs/allocate/crowded.md); placement only"
Figures = dict[str, dict[str, float]]


def figures(seed: int) -> Figures:
    """Figures by manager, of one draw."""
    return crowded(LOAD, FIRST_SEED + seed, MANAGERS)


def _row(figure: str, metric: str, values: list[float], source: str) -> ReproducedRow:
    return ReproducedRow(
        figure=figure,
        metric=f"{LOAD}: {metric}",
        source=source,
        ours=round(float(np.median(values)), 2),
        note=NOTE,
        low=round(min(values), 2),
        high=round(max(values), 2),
    )


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
    if len(group) > 1:
        for figure in ORDERED:
            for other in MANAGERS[1:]:
                order = paired(group, "paragon", other, figure)
                rows.append(
                    ReproducedRow(
                        figure="Crowded world",
                        metric=f"{LOAD}: {figure.removesuffix(', %')}, paragon before {other}, points",
                        source="before",
                        ours=round(order.lead, 2),
                        note=f"{NOTE}; mean lead with its 99% interval over the seeds: {order.verdict}",
                        low=round(order.low, 2),
                        high=round(order.high, 2),
                    )
                )
    return Findings(tuple(rows))


def in_crowded_world(seeds: int) -> tuple[Part, ...]:
    """Part on the crowded world.

    Args:
        seeds: number of draws; the first has seed 100.
    """
    return (over_seeds("crowded world", figures, seeds, conclude),)
