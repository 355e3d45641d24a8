"""Every part of the reproduction of Quasar."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.quasar.phases import phases
from kwiken.lab.reproduction.allocator.quasar.required import REQUIRED
from kwiken.lab.reproduction.allocator.quasar.reservations import reservations
from kwiken.lab.reproduction.allocator.quasar.scheduling import comparisons
from kwiken.lab.reproduction.allocator.quasar.tables import tables
from kwiken.lab.reproduction.rows import Part, unreproduced


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of synthetic matrices and scenarios to average over.
    """
    return (
        *tables(seeds),
        *comparisons(seeds),
        *phases(seeds),
        *reservations(seeds),
        unreproduced(REQUIRED),
    )
