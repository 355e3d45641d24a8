"""Managers of workloads with targets on 200 simulated servers: Figures 4.15 and 4.16 of Quasar."""

from __future__ import annotations

from typing import Final

from kwiken.reproduction.rows import Findings, Part, over_seeds
from kwiken.reproduction.scenarios import Figures, Told, levels, orderings, played

SCENARIO: Final = "targets"
ORACLE: Final = "quasar, all known"
MANAGERS: Final = (ORACLE, "quasar", "quasar, without adaptation", "paragon", "least-loaded")
# What is above the target is worth nothing to a user, so it is cut off before the mean is taken.
PERFORMANCE: Final = Told(
    "Figure 4.15",
    "mean performance, at most 1, %",
    {"quasar": "98", "paragon": "83", "least-loaded": "62"},
)
LEVELS: Final = (
    PERFORMANCE,
    Told("Figure 4.15", "QoS kept, %", {"quasar": "95"}),
    Told("Figure 4.16", "cores used, %", {"quasar": "62", "least-loaded": "15"}),
    Told("Figure 4.16", "cores allocated, %", {}),
)
PERFORMANCE_PAIRS: Final = (
    (ORACLE, "quasar"),
    ("quasar", "quasar, without adaptation"),
    ("quasar", "paragon"),
    ("paragon", "least-loaded"),
)


def conclude(results: list[list[Figures]]) -> Findings:
    """Rows of the comparison.

    Args:
        results: by seed, as the only case.
    """
    (group,) = results
    rows = [row for told in LEVELS for row in levels(SCENARIO, told, group)]
    rows += orderings(SCENARIO, PERFORMANCE, PERFORMANCE_PAIRS, group)
    return Findings(tuple(rows))


def comparisons(seeds: int) -> tuple[Part, ...]:
    """Parts that compare managers.

    Args:
        seeds: number of draws of the scenario.
    """
    return (over_seeds(SCENARIO, played, seeds, conclude, ((SCENARIO, MANAGERS),)),)
