"""Qualities of jobs and nodes under one manager of the lined fleet, and the classes that follow from them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.allocator.placement.headroom import SOURCE_CAUTION
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure, Target, Workload
from kwiken.base.arrays import Bools, Floats, Ints
from papers.worlds.fleet.platforms import Platform
from papers.worlds.fleet.world import World
from papers.worlds.waiting.lines.quality_classes import QualityClasses, equal_classes, quantile_classes
from papers.worlds.waiting.lines.suitable_quality import SuitableQuality
from papers.worlds.waiting.managers import LinedManager, Quality
from papers.worlds.waiting.rules import ACCEPTED, PAST, QOS

WHOLE: Final = 100.0
# The source's resources. The three kinds of work of a processor are shared by quota and have no score.
SCORED: Final = np.array([place for place, name in enumerate(SOURCES) if not name.startswith("cpu-")])


def job_quality(request: PlacementRequest) -> float:
    """Quality of node that a job needs, from 0 to 100: the mean pressure that it causes, in percent.

    Args:
        request: job with its predicted scores.
    """
    return WHOLE * float(np.minimum(request.caused[SCORED], 1.0).mean())


def offered_by_class(features: Floats) -> Floats:
    """Pressure that an empty node of each class tolerates, as a share of the best class.

    Args:
        features: (c, s) what a node of each class has of each source, above 0, in any unit of the source.

    Returns:
        (c, s) shares, above 0 and at most 1.
    """
    return np.asarray(features / features.max(axis=0))


def node_qualities(ledger: NodeLedger, offered: Floats, nodes: Ints) -> Floats:
    """Quality that nodes offer to one more job, from 0 to 100.

    On each source, a node offers what its hardware has beyond the pressure of its residents, and at most the
    pressure that every resident can still bear.

    Args:
        offered: (c, s) pressure that an empty node of each class tolerates, a share.
        nodes: (m,) indices of nodes.

    Returns:
        (m,) mean over the sources, in percent.
    """
    classes = ledger.cluster.class_of[nodes]
    room = offered[classes].T[SCORED] - np.minimum(ledger.pressure[SCORED][:, nodes], 1.0)
    left = np.minimum(room, ledger.slack[SCORED][:, nodes])
    return np.asarray(WHOLE * np.clip(left, 0.0, 1.0).mean(axis=0))


class LinedQualities:
    """Scores of one run.

    Sums of pressure are shares of the largest on either side: of the past application that causes most, and
    of the empty node that offers most. So the most demanding applications need empty nodes of the best kind.

    Args:
        ledger: nodes as the manager sees them.
    """

    def __init__(
        self, world: World, manager: LinedManager, platforms: tuple[Platform, ...], ledger: NodeLedger
    ) -> None:
        self._manager, self._ledger = manager, ledger
        self._offered = offered_by_class(
            np.array(
                [
                    [
                        one.bandwidth_gb_per_s
                        if name == "memory-bandwidth"
                        else one.memory_gb
                        if name == "memory-capacity"
                        else 1.0
                        if name in {"disk", "network"}
                        else one.cache_mb
                        for name in SOURCES
                    ]
                    for one in platforms
                ]
            )
        )
        past = _past(world, ledger)
        self._most_needed = max(job_quality(one) for one in past)
        every = np.arange(len(ledger.cluster.nodes))
        self._most_offered = float(node_qualities(ledger, self._offered, every).max())
        self._suitable = (
            SuitableQuality(past, ledger.cluster, QOS) if manager.quality is Quality.SUITABLE else None
        )
        self._classes = (
            equal_classes(manager.classes)
            if manager.quality is Quality.PRESSURE
            else quantile_classes([self.of_job(one) for one in past], manager.classes)
        )

    def classes(self) -> QualityClasses:
        """Classes of the manager's lines."""
        return self._classes

    def pool(self, quality: float, free: int) -> int:
        """Number of the pool of a node; -1 for none."""
        return self._classes.of(quality) if free else -1

    def of_job(self, request: PlacementRequest) -> float:
        """Quality that a job needs, from 0 to 100."""
        if self._suitable is not None:
            return self._suitable.of_job(request)
        return min(WHOLE, WHOLE * job_quality(request) / self._most_needed)

    def of_node(self, node: int) -> float:
        """Quality that a node offers now, from 0 to 100."""
        if not self._manager.waits:
            return 0.0
        if self._suitable is not None:
            return self._suitable.of_node(self._ledger, node)
        (found,) = node_qualities(self._ledger, self._offered, np.array([node])).tolist()
        return WHOLE * float(found) / self._most_offered

    def suits(self, request: PlacementRequest) -> Bools:
        """(n,) nodes whose class is accepted for a job by prediction, without neighbours."""
        assert self._suitable is not None
        return self._suitable.classes(request, ACCEPTED)[self._ledger.cluster.class_of]


def _past(world: World, ledger: NodeLedger) -> tuple[PlacementRequest, ...]:
    """Requests of past applications, measured everywhere, with the reservations of those that arrive."""
    classes = tuple(one.name for one in ledger.cluster.classes)
    found = []
    for row in range(min(PAST, len(world.known.het))):
        sizes = world.sizes[row % len(world.sizes)]
        profile = world.known.profile(row, f"past-{row}", Measure.IPS, sizes, classes)
        workload = Workload(
            name=profile.name, memory_gb=sizes[0].memory_gb, target=Target(ips=QOS), max_replicas=1
        )
        found.append(replace(request_for(workload, profile, ledger.cluster, SOURCE_CAUTION), reserved=1))
    return tuple(found)
