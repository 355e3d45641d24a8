"""Managers of workloads with targets on 200 simulated servers: Figures 4.15 and 4.16, and swings of load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from papers.figures.bounds import Bound
from papers.figures.rows import Part
from papers.figures.tables import StatedRow, study
from papers.scenarios import SourcedFigure, levels, orderings, simulated

SCENARIOS: Final = ("targets", "targets-swings")  # the source's figures are of the first one
ORACLE: Final = "quasar, all known"
MANAGERS: Final = (ORACLE, "quasar", "quasar, without adaptation", "paragon", "least-loaded")
# What is above the target is worth nothing to a user, so it is cut off before the mean is taken.
PERFORMANCE: Final = SourcedFigure(
    "Figure 4.15",
    "mean performance, at most 1, %",
    {"quasar": "98", "paragon": "83", "least-loaded": "62"},
)
# The source counts waiting as an overhead of scheduling, in a figure of its own.
FROM_ARRIVAL: Final = SourcedFigure("Section 3.10", "mean performance from arrival, at most 1, %", {})
KEPT: Final = SourcedFigure("Figure 4.15", "QoS kept, %", {"quasar": "95"})
ORDERED: Final = (PERFORMANCE, FROM_ARRIVAL, KEPT)  # figures that managers are ordered by; more is better
LEVELS: Final = (
    *ORDERED,
    SourcedFigure("Figure 4.16", "cores used, %", {"quasar": "62", "least-loaded": "15"}),
    SourcedFigure("Figure 4.16", "cores allocated, %", {}),
)
LEADS: Final = {("quasar", "paragon"): Bound(low=5.0)}  # points of performance
PAIRS: Final = (
    (ORACLE, "quasar"),
    ("quasar", "quasar, without adaptation"),
    ("quasar", "paragon"),
    ("quasar", "least-loaded"),
    ("paragon", "least-loaded"),
)


def compared(scenario: str) -> Iterator[StatedRow]:
    """Rows of the comparison on one scenario."""
    for one in LEVELS:
        yield from levels(scenario, one if scenario == SCENARIOS[0] else replace(one, source={}), MANAGERS)
    for one in ORDERED:
        yield from orderings(scenario, one, PAIRS, LEADS if one is PERFORMANCE else {})


def comparisons(seeds: int) -> tuple[Part, ...]:
    """Parts that compare managers, one for each scenario.

    Args:
        seeds: number of draws of each scenario.
    """
    return tuple(study(one, simulated, seeds, compared(one), arguments=(one, MANAGERS)) for one in SCENARIOS)
