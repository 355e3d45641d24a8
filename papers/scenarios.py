"""Comparisons of managers on simulated fleets: medians over seeds beside a source's values, and orderings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from papers.figures.bounds import Bound
from papers.figures.tables import StatedRow, above, difference, level, order
from papers.worlds.fleet.catalogue import SCENARIOS
from papers.worlds.fleet.managers import simulate
from papers.worlds.fleet.simulator.outcome import FleetOutcome
from papers.worlds.fleet.world import World

__all__ = ["ALLOCATED_BEYOND", "Figures", "SourcedFigure", "levels", "orderings", "simulated"]

ALLOCATED_BEYOND = "cores allocated beyond those required, % of all"
Figures = dict[str, dict[str, float]]  # by manager: figures by name
LEVELS = (
    "simulated fleet; its generator is fixed (docs/allocate/fleet.md); medians over the seeds, with "
    "the lowest and the highest"
)
ORDERS = "seeds in which the order holds, a tie is no order; the source's order follows from its values"
LEADS = "by how much the first manager is ahead, below 0 if it is behind; median over the seeds"


def simulated(scenario: str, managers: Sequence[str], seed: int) -> Figures:
    """Figures of one scenario under some managers, on the same draw."""
    world = SCENARIOS[scenario].draw(seed)
    return {name: _figures(world, simulate(world, name)) for name in managers}


def _figures(world: World, found: FleetOutcome) -> dict[str, float]:
    """Figures of a run, with the cores that are allocated beyond those that the jobs require.

    Required is what the jobs reserve, from their arrival for as long as they take alone on the best platform,
    over the second half of the arrivals.
    """
    until_s = float(found.arrival_s[-1])
    from_s = (float(found.arrival_s[0]) + until_s) / 2
    core_s = 0.0
    for job in world.scenario.jobs:
        alone_s = math.fsum(phase.work / phase.reference for phase in job.phases)
        if job.reserved is not None and math.isfinite(alone_s):
            end_s = min(until_s, job.arrival_s + alone_s)
            core_s += max(0.0, end_s - max(from_s, job.arrival_s)) * job.reserved.size.cores
    allocated, _ = found.shares(from_s, until_s)
    required = core_s / (found.capacity * (until_s - from_s))
    return found.summary() | {ALLOCATED_BEYOND: 100 * (allocated - required)}


@dataclass(frozen=True)
class SourcedFigure:
    """One figure of a scenario, with what the source says of it.

    Attributes:
        figure: figure or section of the source.
        metric: name of the figure in a run's summary.
        source: the source's value by manager, as a text.
    """

    figure: str
    metric: str
    source: Mapping[str, str]


def levels(scenario: str, told: SourcedFigure, managers: Sequence[str]) -> Iterator[StatedRow]:
    """A row for each manager: median over the seeds."""
    quantity, _, unit = told.metric.rpartition(", ")
    for name in managers:
        metric, source = f"{scenario}: {quantity}, {name}, {unit}", told.source.get(name, "")
        yield level(told.figure, metric, (name, told.metric), source, LEVELS)


def orderings(
    scenario: str,
    told: SourcedFigure,
    pairs: Sequence[tuple[str, str]],
    bounds: Mapping[tuple[str, str], Bound] = MappingProxyType({}),
) -> Iterator[StatedRow]:
    """Two rows for each pair: seeds in which the first manager is ahead, and by how much it leads.

    Args:
        told: figure; more is better.
        pairs: names of two managers each.
        bounds: by pair, the lead that the specification asks for.
    """
    for pair in pairs:
        values = [(name, told.metric) for name in pair]
        label = f"{scenario}: {told.metric.removesuffix(', %')}, {pair[0]} before {pair[1]}"
        yield order(told.figure, label, above(*values), note=ORDERS)
        yield level(told.figure, f"{label}, points", difference(*values), "", LEADS, bound=bounds.get(pair))
