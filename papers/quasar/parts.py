"""Every part of the reproduction of Quasar."""

from __future__ import annotations

from papers.figures.rows import Part, unreproduced
from papers.quasar.phases import phases
from papers.quasar.required import REQUIRED
from papers.quasar.scheduling import comparisons
from papers.quasar.tables import tables


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of synthetic matrices and scenarios to average over.
    """
    return (
        *tables(seeds),
        *comparisons(seeds),
        *phases(seeds),
        unreproduced(REQUIRED),
    )
