"""Every part of the reproduction of HCloud."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.hcloud.better import better
from kwiken.lab.reproduction.allocator.hcloud.policies import policies
from kwiken.lab.reproduction.allocator.hcloud.strategies import strategies
from kwiken.lab.reproduction.allocator.hcloud.sweeps import sweeps
from kwiken.lab.reproduction.allocator.hcloud.variability import variability
from kwiken.lab.reproduction.rows import Part


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
