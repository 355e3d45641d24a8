"""Every part of the reproduction of Paragon."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.paragon.crowded_world import in_crowded_world
from kwiken.lab.reproduction.allocator.paragon.required import REQUIRED
from kwiken.lab.reproduction.allocator.paragon.scheduling import comparisons
from kwiken.lab.reproduction.allocator.paragon.selection import selections
from kwiken.lab.reproduction.allocator.paragon.tables import tables
from kwiken.lab.reproduction.rows import Part, unreproduced


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
