"""Scene of the demonstration: nodes, services and predictions, from one measured time each. Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Final

import numpy as np

from kwiken.allocator.placement import Caution, Cluster, Node, NodeClass, PlacementRequest, request_for
from kwiken.allocator.workloads import (
    SOURCES,
    Estimate,
    Measure,
    Size,
    Spread,
    Target,
    Workload,
    WorkloadProfile,
)
from kwiken.runtime.cluster import EmulatedNode

SERVICES: Final = {"digest": "hashing", "pack": "packing", "order": "ordering"}  # with their stages
MODULE: Final = "kwiken.services.trio"
BATCH: Final = "batch"
SPIN: Final = (sys.executable, "-S", "-c", "while True: sum(range(1000))")
NODE_CORES: Final = 0.3
NODE_GB: Final = 4.0
SMALL, LARGE = 0.15, 0.3  # cores of a replica
SLOW: Final = 0.25  # speed of the slow class: a whole node is slower than the load of one service
COST: Final = {"quick": 1.0, "slow": 0.4}  # of a node in an hour
# The classes in an order that tells nothing about speed, as in a rack.
NODES: Final = ("slow", "quick", "quick", "slow", "quick", "quick")
TARGET_OVER_TIME: Final = 8.0  # p99 to keep, as a multiple of the time of one call on a small replica
LOAD: Final = 0.65  # requests in the time of one call on a small replica: more than one such replica serves
LOG_100: Final = math.log(100.0)
MEASURED_DEVIATION: Final = 0.1  # log units, of a time measured over a few seconds
CONFIDENCE: Final = 0.95
MIN_RATE: Final = 1e-3  # a size that cannot meet the latency at all


def nodes() -> Cluster:
    """The nodes."""
    classes = [
        NodeClass(name="quick", cores=NODE_CORES, memory_gb=NODE_GB, speed=1.0, cost_per_hour=COST["quick"]),
        NodeClass(name="slow", cores=NODE_CORES, memory_gb=NODE_GB, speed=SLOW, cost_per_hour=COST["slow"]),
    ]
    return Cluster(tuple(classes), tuple(Node(f"node-{place}", kind) for place, kind in enumerate(NODES, 1)))


def played() -> dict[str, EmulatedNode]:
    """The nodes as this machine emulates them."""
    speeds = {"quick": 1.0, "slow": SLOW}
    return {
        node.name: EmulatedNode(node_class=node.node_class, cores=NODE_CORES, speed=speeds[node.node_class])
        for node in nodes().nodes
    }


def target_ms(call_s: float) -> float:
    """Largest p99 latency of a service, milliseconds.

    Args:
        call_s: time of one call on a small replica on a quick node, alone, seconds.
    """
    return 1e3 * TARGET_OVER_TIME * call_s


def rate_per_s(call_s: float) -> float:
    """Rate at which the latency is to hold, requests per second; see `target_ms`."""
    return LOAD / call_s


def performance(call_s: float, cores: float, speed: float) -> float:
    """Rate at which one replica keeps the target, requests per second: M/M/1 (Quasar section 3.11).

    Args:
        call_s: time of one call on a small replica on a quick node, alone, seconds.
        cores: number of cores of the replica.
        speed: speed of its node.
    """
    served = cores / SMALL * speed / call_s
    return max(MIN_RATE, served - LOG_100 / (TARGET_OVER_TIME * call_s))


def requests(call_s: Mapping[str, float], cluster: Cluster) -> list[PlacementRequest]:
    """What is to be placed: the services, and best-effort work.

    Args:
        call_s: time of one call on a small replica on a quick node, alone, by service, seconds.
    """
    caution = Caution(confidence=CONFIDENCE)
    found = []
    for name, seconds in call_s.items():
        workload = Workload(
            name=name,
            memory_gb=0.2,
            target=Target(p99_ms=target_ms(seconds), rate_per_s=rate_per_s(seconds)),
            spread=Spread.NODE,
            service=name,
            stage=SERVICES[name],
        )
        base = performance(seconds, LARGE, 1.0)
        profile = _profile(
            name,
            base,
            {SMALL: performance(seconds, SMALL, 1.0) / base, LARGE: 1.0},
            performance(seconds, LARGE, SLOW) / base,
            MEASURED_DEVIATION,
        )
        found.append(request_for(workload, profile, cluster, caution))
    batch = Workload(name=BATCH, memory_gb=0.2, best_effort=True, max_replicas=6, command=SPIN)
    filler = _profile(BATCH, LARGE, {SMALL: 0.5, LARGE: 1.0}, SLOW, 0.0)
    return [*found, request_for(batch, filler, cluster, caution)]


def _profile(
    name: str, base: float, up: Mapping[float, float], slow: float, deviation: float
) -> WorkloadProfile:
    def known(values: list[float]) -> Estimate:
        return Estimate(np.array(values, dtype=np.float64), np.zeros(len(values)))

    counts = np.arange(1, len(NODES) + 1)
    return WorkloadProfile(
        name=name,
        measure=Measure.RATE,
        base=base,
        base_deviation=deviation,
        sizes=tuple(Size(cores, 0.2) for cores in up),
        up=known([math.log(value) for value in up.values()]),
        replicas=counts,
        out=known(np.log(counts).tolist()),
        classes=("quick", "slow"),
        het=known([0.0, math.log(slow)]),
        tolerated=known([1.0] * len(SOURCES)),
        caused=known([0.0] * len(SOURCES)),
    )
