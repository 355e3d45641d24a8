"""Parts of Kwiken's reproduction, in the order in which they are computed."""

from __future__ import annotations

from papers.figures.rows import Part, unreproduced
from papers.kwiken import beyond, combined, held_out, reissues
from papers.kwiken.causes.heat import heat_part
from papers.kwiken.causes.not_reproduced import NOT_REPRODUCED
from papers.kwiken.comparisons.chunks import chunks_part
from papers.kwiken.comparisons.random_search import search_part
from papers.kwiken.comparisons.scatter import scatter_part
from papers.kwiken.late_requests.timeline import late_parts
from papers.kwiken.partial_answers import incomplete


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
        heat_part(seeds),
        *late_parts(0),
        combined.part(0, dags=3),
        scatter_part(0),
        chunks_part(0),
        search_part(0),
        *beyond.parts(0),
        held_out.part(0),
        unreproduced(NOT_REPRODUCED),
    )
