"""Every part of the reproduction of Paragon."""

from __future__ import annotations

from kwiken.lab.reproduction.paragon.scheduling import comparisons
from kwiken.lab.reproduction.paragon.tables import tables
from kwiken.lab.reproduction.rows import Part


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of synthetic matrices and scenarios to average over.
    """
    return (*tables(seeds), *comparisons(seeds))
