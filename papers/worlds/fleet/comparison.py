"""Comparison of managers: one run as a job of its own, by names and a seed alone."""

from __future__ import annotations

from collections.abc import Mapping

from papers.worlds.fleet.catalogue import SCENARIOS
from papers.worlds.fleet.managers import simulate


def run_of(scenario: str, seed: int, manager: str) -> Mapping[str, float]:
    """Figures of one manager on one draw of a scenario.

    Args:
        manager: name of a manager of `CONTESTANTS`.
    """
    return simulate(SCENARIOS[scenario].draw(seed), manager).summary()
