"""Every part of the reproduction of Quasar."""

from __future__ import annotations

from kwiken.lab.reproduction.quasar.phases import phases
from kwiken.lab.reproduction.quasar.required import REQUIRED
from kwiken.lab.reproduction.quasar.reservations import reservations
from kwiken.lab.reproduction.quasar.scheduling import comparisons
from kwiken.lab.reproduction.quasar.tables import tables
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
