"""Instances of placement on which schedulers are compared with the joint optimum: five families, by seed.

The families and the seeds that are reported were fixed before the search that they judge was written. What is
tried out while a scheduler is changed uses `TRIAL_SEEDS`, never `SEEDS`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.workloads.profile import Estimate, Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure, Spread, Target, Workload
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass

SEEDS: Final = range(1000, 1016)  # of the figures that are reported
TRIAL_SEEDS: Final = range(16)  # for trying things out
# Predictions are exact, and neighbours cost what the program supposes: both sides then judge alike.
CAUTION: Final = Caution(confidence=0.5, shortfall=0.0, later_loss=0.05)
MAX_REPLICAS: Final = 8
SIZES: Final = ((1.0, 2.0), (2.0, 3.0), (4.0, 6.0), (8.0, 16.0))  # cores, GB

PLAIN: Final = ((16, 64, 1.0, 0.80), (8, 32, 0.9, 0.40), (4, 16, 0.6, 0.18), (8, 16, 0.75, 0.26))
_UNEQUAL: Final = ((32, 128, 1.0, 1.90), (16, 32, 1.3, 0.95), (8, 64, 0.7, 0.35), (2, 8, 0.5, 0.06))


@dataclass(frozen=True, kw_only=True)
class Family:
    """How the instances of one family are drawn.

    Attributes:
        nodes: number of nodes.
        workloads: number of workloads.
        classes: cores, GB, speed and cost per hour by class.
        zones: number of zones; 0 for nodes that are zones of their own.
        spreads: anti-affinity of the workloads, in turn.
        load: share of all cores that the targets need on average nodes, at the best size of each workload.
        class_deviation: standard deviation of the log of performance by class around the speed.
        tolerated: range from which tolerated pressure is drawn.
        caused: range from which the pressure that a replica exerts is drawn.
    """

    nodes: int
    workloads: int
    classes: tuple[tuple[float, float, float, float], ...] = PLAIN
    zones: int = 0
    spreads: tuple[Spread, ...] = (Spread.NODE,)
    load: float
    class_deviation: float = 0.15
    tolerated: tuple[float, float] = (0.4, 1.0)
    caused: tuple[float, float] = (0.0, 0.15)


FAMILIES: Final = {
    "mixed": Family(
        nodes=14, workloads=4, load=0.4, spreads=(Spread.NODE, Spread.NONE, Spread.NODE, Spread.ZONE), zones=4
    ),
    "unequal nodes": Family(
        nodes=12,
        workloads=4,
        load=0.35,
        classes=_UNEQUAL,
        class_deviation=0.35,
        spreads=(Spread.NODE, Spread.NONE),
    ),
    "zones": Family(nodes=15, workloads=4, load=0.35, zones=5, spreads=(Spread.ZONE, Spread.NODE)),
    "nearly full": Family(
        nodes=12, workloads=5, load=0.8, spreads=(Spread.NODE, Spread.NONE), caused=(0.0, 0.05)
    ),
    "contended": Family(nodes=14, workloads=4, load=0.3, tolerated=(0.2, 0.8), caused=(0.05, 0.35)),
}


def instance(family: Family, seed: int) -> list[PlacementRequest]:
    """Workloads to place, with the cluster in `requests[0]`'s arrays; see `cluster_of`.

    Args:
        family: how to draw it.
        seed: seed of the drawing.
    """
    rng = np.random.default_rng(seed)
    found = cluster_of(family, seed)
    pairs = [_workload(number, family, rng) for number in range(family.workloads)]
    alone = [request_for(workload, profile, found, CAUTION) for workload, profile in pairs]
    shares = rng.dirichlet(np.full(family.workloads, 3.0))
    total = float(found.cores.sum()) * family.load
    requests = []
    for (workload, profile), request, share in zip(pairs, alone, shares, strict=True):
        mean_rate = request.rate[:, found.class_of].mean(axis=1)  # of a node drawn at random
        per_core = float((mean_rate / request.cores).max())
        most = float(mean_rate.max() * (request.efficiency * np.arange(1, MAX_REPLICAS + 1)).max())
        required = min(per_core * total * float(share), 0.7 * most)
        target = Target(p99_ms=50, rate_per_s=required)
        wanted = Workload(
            name=workload.name,
            memory_gb=1.0,
            target=target,
            spread=workload.spread,
            max_replicas=MAX_REPLICAS,
        )
        requests.append(request_for(wanted, profile, found, CAUTION))
    return requests


def node_classes(drawn: Iterable[tuple[float, float, float, float]]) -> tuple[NodeClass, ...]:
    """Classes of nodes by cores, GB, speed and cost per hour."""
    return tuple(
        NodeClass(name=f"class-{place}", cores=cores, memory_gb=memory_gb, cost_per_hour=cost)
        for place, (cores, memory_gb, _, cost) in enumerate(drawn)
    )


def cluster_of(family: Family, seed: int) -> Cluster:
    """Nodes of an instance.

    Args:
        family: how to draw it.
        seed: seed of the drawing.
    """
    rng = np.random.default_rng((seed, 1))
    classes = node_classes(family.classes)
    kinds = rng.integers(len(classes), size=family.nodes).tolist()
    zones = [f"zone-{n % family.zones}" if family.zones else "" for n in range(family.nodes)]
    return Cluster(
        classes,
        tuple(
            Node(f"n{n}", f"class-{kind}", zone)
            for n, (kind, zone) in enumerate(zip(kinds, zones, strict=True))
        ),
    )


def _workload(number: int, family: Family, rng: np.random.Generator) -> tuple[Workload, WorkloadProfile]:
    """Workload with random curves and scores; its target is a placeholder until all are drawn."""
    counts = np.arange(1, MAX_REPLICAS + 1)
    cores = np.array([size[0] for size in SIZES])
    speeds = np.log([speed for _, _, speed, _ in family.classes])
    het = speeds + rng.normal(0, family.class_deviation, len(speeds))
    spread = family.spreads[number % len(family.spreads)]
    profile = WorkloadProfile(
        name=f"w{number}",
        measure=Measure.RATE,
        base=1000.0,
        base_deviation=0.0,
        sizes=tuple(Size(*size) for size in SIZES),
        up=_exact(np.log(cores / cores[-1]) * rng.uniform(0.6, 1.0) + rng.normal(0, 0.02, len(cores))),
        replicas=counts,
        out=_exact(np.log(counts / (1 + rng.uniform(0, 0.03) * (counts - 1)))),
        classes=tuple(f"class-{place}" for place in range(len(family.classes))),
        het=_exact(het),
        tolerated=_exact(rng.uniform(*family.tolerated, len(SOURCES))),
        caused=_exact(rng.uniform(*family.caused, len(SOURCES))),
    )
    target = Target(p99_ms=50, rate_per_s=1.0)
    return (
        Workload(name=f"w{number}", memory_gb=1.0, target=target, spread=spread, max_replicas=MAX_REPLICAS),
        profile,
    )


def _exact(mean: np.ndarray) -> Estimate:
    return Estimate(mean, np.zeros(len(mean)))
