"""Every part of the reproduction of Quasar."""

from __future__ import annotations

from kwiken.reproduction.quasar.phases import phases
from kwiken.reproduction.quasar.scheduling import comparisons
from kwiken.reproduction.quasar.tables import tables
from kwiken.reproduction.rows import Part


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of synthetic matrices and scenarios to average over.
    """
    return (*tables(seeds), *comparisons(seeds), *phases(seeds))
