"""Parts of Kwiken's reproduction, in the order in which they are computed."""

from __future__ import annotations

from kwiken.lab.reproduction.kwiken import beyond, combined, held_out, incomplete, reissues, search
from kwiken.lab.reproduction.kwiken.late_requests import late_parts
from kwiken.lab.reproduction.rows import Part


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of synthetic populations to average over.
    """
    return (
        reissues.part(seeds),
        reissues.other_populations(),
        reissues.curves_part(0),
        *incomplete.parts(0),
        *late_parts(0),
        combined.part(0, dags=3),
        *search.parts(0),
        *beyond.parts(0),
        held_out.part(0),
    )
