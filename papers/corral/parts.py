"""Every part of the reproduction of Corral."""

from __future__ import annotations

from papers.corral.ablation import ablation_part
from papers.corral.gap_ablation import gap_ablation
from papers.corral.planner import planner
from papers.corral.selector import selector
from papers.corral.selector_ablation import selector_ablations
from papers.figures.rows import Part


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of draws of the workloads to take medians over.
    """
    return (
        *selector(seeds),
        *planner(seeds),
        ablation_part(seeds),
        *selector_ablations(seeds),
        gap_ablation(seeds),
    )
