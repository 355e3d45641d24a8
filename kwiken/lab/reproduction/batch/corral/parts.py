"""Every part of the reproduction of Corral."""

from __future__ import annotations

from kwiken.lab.reproduction.batch.corral.ablation import ablation_part
from kwiken.lab.reproduction.batch.corral.gap_ablation import gap_ablation
from kwiken.lab.reproduction.batch.corral.planner import planner
from kwiken.lab.reproduction.batch.corral.selector import selector
from kwiken.lab.reproduction.batch.corral.selector_ablation import selector_ablations
from kwiken.lab.reproduction.batch.corral.speed import speed
from kwiken.lab.reproduction.rows import Part


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
        speed(),
    )
