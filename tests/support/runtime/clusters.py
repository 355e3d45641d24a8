"""Clusters, profiles and requests for tests of placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kwiken.allocator.placement.headroom import SOURCE_CAUTION, Caution
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.workloads.profile import Estimate, Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure, Spread, Target, Workload
from kwiken.base.arrays import Floats
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass

CORES, MEMORY_GB = 8.0, 64.0


def cluster(counts: Mapping[str, int], *, cores: float = CORES, zones: int = 0) -> Cluster:
    """Nodes of some classes; zones are given in turn, none for 0."""
    classes = tuple(NodeClass(name=name, cores=cores, memory_gb=MEMORY_GB) for name in counts)
    names = [(name, number) for name, count in counts.items() for number in range(count)]
    nodes = tuple(
        Node(f"{name}-{number}", name, f"zone-{place % zones}" if zones else "")
        for place, (name, number) in enumerate(names)
    )
    return Cluster(classes, nodes)


def known(values: Sequence[float] | Floats, deviation: float = 0.0) -> Estimate:
    """Estimate with one deviation for all values."""
    return Estimate(np.array(values, dtype=np.float64), np.full(len(values), deviation))


def over_sources(value: float, **others: float) -> Estimate:
    """Contention scores: one value, and others by source with `_` for `-`."""
    named = {name.replace("_", "-"): score for name, score in others.items()}
    return known([named.get(name, value) for name in SOURCES])


def profile(
    rates: Mapping[float, float],
    classes: Mapping[str, float],
    *,
    name: str = "w",
    efficiency: Sequence[float] | Floats = (1.0,) * 100,
    deviation: float = 0.0,
    tolerated: Estimate | None = None,
    caused: Estimate | None = None,
) -> WorkloadProfile:
    """Profile: rate by cores on the best class, factors by class, efficiency of 1, 2 ... replicas."""
    best = max(rates.values())
    counts = np.arange(1, len(efficiency) + 1)
    return WorkloadProfile(
        name=name,
        measure=Measure.RATE,
        base=best,
        base_deviation=deviation,
        sizes=tuple(Size(cores, 1.0) for cores in rates),
        up=known(np.log(np.array(list(rates.values())) / best)),
        replicas=counts,
        out=known(np.log(counts * np.array(efficiency))),
        classes=tuple(classes),
        het=known(np.log(list(classes.values()))),
        tolerated=tolerated or over_sources(1.0),
        caused=caused or over_sources(0.0),
    )


def workload(rate_per_s: float | None, *, name: str = "w", **fields: Any) -> Workload:
    """Workload with a target of a rate, or best-effort work; no two replicas share a node unless told."""
    target = None if rate_per_s is None else Target(p99_ms=10.0, rate_per_s=rate_per_s)
    settings = {"spread": Spread.NODE, "memory_gb": 1.0, **fields}
    return Workload(name=name, target=target, best_effort=target is None, **settings)


def requested(
    rate_per_s: float | None,
    found: WorkloadProfile,
    nodes: Cluster,
    *,
    caution: Caution = SOURCE_CAUTION,
    **fields: Any,
) -> PlacementRequest:
    """Request of a workload with the profile's name."""
    return request_for(workload(rate_per_s, name=found.name, **fields), found, nodes, caution)
