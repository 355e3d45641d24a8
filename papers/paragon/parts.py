"""Every part of the reproduction of Paragon."""

from __future__ import annotations

from papers.figures.rows import Part, unreproduced
from papers.paragon.crowded_world import in_crowded_world
from papers.paragon.required import REQUIRED
from papers.paragon.scheduling import comparisons
from papers.paragon.selection import selections
from papers.paragon.tables import tables


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of synthetic matrices and scenarios to average over.
    """
    return (
        *tables(seeds),
        *comparisons(seeds),
        *selections(seeds),
        *in_crowded_world(seeds),
        unreproduced(REQUIRED),
    )
