"""Every part of the reproduction of HCloud."""

from __future__ import annotations

from papers.figures.rows import Part
from papers.hcloud.better import better
from papers.hcloud.policies import policies
from papers.hcloud.strategies import strategies
from papers.hcloud.sweeps import sweeps
from papers.hcloud.variability import variability


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of draws of the scenarios to take medians over.
    """
    return (
        *strategies(seeds),
        *policies(seeds),
        *sweeps(seeds),
        *variability(seeds),
        *better(seeds),
    )
