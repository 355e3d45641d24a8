"""Platforms of simulated clusters: what their hardware offers, and how many nodes there are of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass


@dataclass(frozen=True)
class Platform:
    """One type of machine.

    Attributes:
        memory_gb: memory of one node, in GB.
        core_speed: speed of one core, in GHz of a core of the Westmere generation.
        cache_mb: last-level cache for each core, in MB.
        bandwidth_gb_per_s: memory bandwidth for each core, in GB per second.
    """

    name: str
    cores: int
    memory_gb: float
    core_speed: float
    cache_mb: float
    bandwidth_gb_per_s: float
    count: int


# Paragon's local cluster (Table 3.3): 40 nodes, 178 cores. The table gives clock rates, caches and memory.
# Work per cycle by generation (Westmere 1.0, Core 0.8, K8 0.55, NetBurst 0.45, Atom 0.3) and bandwidths by
# type of memory are taken from the generations' published properties.
LOCAL: Final = (
    Platform("Xeon L5609", 8, 24, 1.87, 3.0, 6.0, 1),
    Platform("Xeon X5650", 12, 24, 2.67, 2.0, 4.5, 2),
    Platform("Xeon X5670", 12, 48, 2.93, 2.0, 4.5, 2),
    Platform("Xeon L5640", 12, 48, 2.27, 2.0, 4.5, 1),
    Platform("Xeon MP", 4, 8, 1.42, 1.0, 1.6, 5),
    Platform("Xeon E5345", 4, 32, 1.86, 2.0, 2.5, 8),
    Platform("Xeon E5335", 4, 16, 1.60, 2.0, 2.5, 8),
    Platform("Opteron 240", 2, 4, 0.99, 2.0, 3.2, 7),
    Platform("Atom 330", 2, 4, 0.48, 0.5, 2.0, 5),
    Platform("Atom D510", 2, 8, 0.50, 0.5, 3.0, 1),
)
# 14 types of rented servers, which the sources do not list: 1,000 servers with 4,960 cores in all, from one
# slow core to 32 cores with 244 GB.
CLOUD: Final = (
    Platform("cloud-1-slow", 1, 2, 1.6, 1.0, 2.0, 60),
    Platform("cloud-1", 1, 4, 2.0, 1.5, 3.0, 80),
    Platform("cloud-2-slow", 2, 4, 1.8, 1.0, 2.0, 130),
    Platform("cloud-2", 2, 8, 2.2, 2.0, 3.5, 120),
    Platform("cloud-2-fast", 2, 15, 2.6, 2.5, 4.0, 80),
    Platform("cloud-4-slow", 4, 8, 2.0, 1.5, 2.5, 120),
    Platform("cloud-4", 4, 15, 2.6, 2.0, 3.5, 100),
    Platform("cloud-4-fast", 4, 30, 2.9, 2.5, 5.0, 60),
    Platform("cloud-8-slow", 8, 15, 2.2, 1.5, 3.0, 60),
    Platform("cloud-8", 8, 30, 2.8, 2.5, 4.0, 60),
    Platform("cloud-8-large", 8, 61, 2.6, 2.5, 5.0, 30),
    Platform("cloud-16", 16, 60, 2.6, 2.0, 4.0, 55),
    Platform("cloud-16-fast", 16, 122, 3.2, 2.5, 5.0, 30),
    Platform("cloud-32", 32, 244, 2.8, 2.0, 4.5, 15),
)
CLOUD_SERVERS: Final = 1000
SERVERS: Final = range(200, 100_001, 200)  # numbers of servers for which the proportions are whole


def cloud(servers: int) -> tuple[Platform, ...]:
    """The 14 types of rented servers, in the proportions of `CLOUD`.

    Args:
        servers: number of servers, a multiple of 200, from 200 to 100,000.
    """
    if servers not in SERVERS:
        raise ValueError(f"servers must be a multiple of 200 from 200 to 100,000, not {servers}")
    return tuple(replace(one, count=one.count * servers // CLOUD_SERVERS) for one in CLOUD)


def some_of_cloud(places: tuple[int, ...], servers: int) -> tuple[Platform, ...]:
    """As many servers of each of some types of `CLOUD`, for providers with fewer types.

    Args:
        places: positions of the types in `CLOUD`, each once.
        servers: number of servers, a multiple of the number of types.
    """
    count = servers // len(places)
    return tuple(replace(CLOUD[place], count=count) for place in places)


def cluster_of(platforms: tuple[Platform, ...]) -> Cluster:
    """Cluster of all nodes of some platforms; the classes have the platforms' names, and no prices."""
    classes = tuple(NodeClass(name=one.name, cores=one.cores, memory_gb=one.memory_gb) for one in platforms)
    nodes = tuple(
        Node(f"{one.name}-{number}", one.name) for one in platforms for number in range(1, one.count + 1)
    )
    return Cluster(classes, nodes)


def features(platforms: tuple[Platform, ...]) -> Floats:
    """(c, 3) what a core of each platform offers: speed, cache and memory bandwidth, in their units."""
    return np.array([(one.core_speed, one.cache_mb, one.bandwidth_gb_per_s) for one in platforms])
