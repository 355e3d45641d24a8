"""Managers of Paragon in the crowded world: kills for want of memory, waits, and the orders there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from papers.figures.rows import Part
from papers.figures.tables import StatedRow, above, difference, level, order, study
from papers.worlds.crowded.comparison import ORDERED, crowded

LOAD: Final = "crowded-full"
FIRST_SEED: Final = 100
MANAGERS: Final = ("paragon", "interference only", "heterogeneity only", "least loaded", "least used")
NOTE: Final = "a world that is no scheduler's model (docs/allocate/crowded.md); placement only"
Figures = dict[str, dict[str, float]]


def figures(seed: int) -> Figures:
    """Figures by manager, of one draw."""
    return crowded(LOAD, FIRST_SEED + seed, MANAGERS)


def _rows() -> Iterator[StatedRow]:
    crashes = "Section 3.5, crashes"
    for name in MANAGERS:
        source = "0" if name == "paragon" else "up to 10.4% of applications do not end"
        metric = f"{LOAD}: jobs given up after five kills, {name}"
        yield level(crashes, metric, (name, "given up"), source)
        yield level(crashes, f"{LOAD}: kills for want of memory, {name}", (name, "kills"))
    metric = f"{LOAD}: arrival to first second of running, paragon, s"
    yield level("Section 3.4", metric, ("paragon", "mean wait, s"), "about a minute")
    for figure in ORDERED:
        for other in MANAGERS[1:]:
            values = ("paragon", figure), (other, figure)
            words = f"{LOAD}: {figure.removesuffix(', %')}, paragon before {other}"
            yield order("Crowded world", words, above(*values), "before")
            yield level("Crowded world", f"{words}, points", difference(*values))


def in_crowded_world(seeds: int) -> tuple[Part, ...]:
    """Part on the crowded world.

    Args:
        seeds: number of draws; the first has seed 100.
    """
    return (study("crowded world", figures, seeds, _rows(), note=NOTE),)
