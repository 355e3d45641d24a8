"""All parts of the reproduction of ARQ, and what is not reproduced."""

from __future__ import annotations

from typing import Final

from papers.arq.better import ablations, head, variants
from papers.arq.comparisons import (
    chances,
    comparison,
    inside_a_line,
    large,
    line_counts,
    series,
)
from papers.arq.tables import tables
from papers.figures.rows import Part, RequiredRow, unreproduced

MOST_LARGE: Final = 8  # seeds of the run of 1,000 servers
MISSING: Final = (
    RequiredRow(
        number="R13",
        figure="Figure 6.4",
        metric="share of the time in the selection of a server",
        source="below 0.1%",
        reason="a reproduction reads no clock; `python -m benchmarks --only placement` times a choice",
    ),
    RequiredRow(
        number="R5",
        figure="Figure 6.4",
        metric="names of the applications that did not finish",
        source="mcf and blackscholes",
        reason="applications are drawn and have no names; their number is printed by scheduler",
    ),
)


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction, each independent.

    Args:
        seeds: number of draws of the fleet.
    """
    return (
        tables(),
        *(comparison(name, seeds) for name in ("low", "phases", "phases, even arrivals", "oversubscribed")),
        series(seeds),
        chances(seeds),
        line_counts(seeds),
        inside_a_line(seeds),
        large(min(seeds, MOST_LARGE)),
        *variants(seeds),
        *ablations(seeds),
        head(seeds),
        unreproduced(MISSING),
    )
