"""Supply of processors: what a replica of each stage costs on each class of nodes, its speed, and its place.

Every replica has one core. On a cluster, a replica's share of a node's cores and memory is charged, and
replicas are packed onto the nodes. Without a cluster a core costs 1, and only the stage bounds their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.allocator.placement.anti_affinity import AntiAffinity
from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster

CORES_PER_REPLICA: Final = 1.0  # the load model gives each replica a processor of its own
DEFAULT_MEMORY_GB: Final = 1.0
DEFAULT_MAX_REPLICAS: Final = 64
CORE: Final = "core"  # name of the only class where there is no cluster


@dataclass(frozen=True, kw_only=True)
class StageNeed:
    """What the replicas of one stage need.

    Attributes:
        memory_gb: memory of a replica, in GB.
        spread: what no two replicas may share.
        max_replicas: most replicas, 1 or more.
        speeds: by class of nodes: speed as a factor of the recorded replicas'; classes that are missing have
            the speed that the cluster states.
    """

    memory_gb: float = DEFAULT_MEMORY_GB
    spread: Spread = Spread.NONE
    max_replicas: int = DEFAULT_MAX_REPLICAS
    speeds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StageSize:
    """What one stage is given.

    Attributes:
        replicas: number of replicas; 0 for a stage whose replicas are not sized.
        node_class: index of the class of nodes that all of them run on.
        level: how many calls get a copy: position in the search's levels, 0 for none.
    """

    replicas: int
    node_class: int = 0
    level: int = 0


Sizes = tuple[StageSize, ...]


class Supply:
    """Prices, speeds and room of the classes of nodes, as arrays over stages (s) and classes (c).

    Args:
        needs: what replicas need, by stage; defaults for the others.
        cluster: nodes; None for cores of one kind, at a cost of 1 each.

    Attributes:
        price: (s, c) cost of one replica in an hour.
        speed: (s, c) speed of a replica as a factor of the recorded replicas'.
        limit: (s, c) most replicas of a stage on the empty nodes of a class.

    Raises:
        InputError: for a class of unknown speed.
    """

    def __init__(
        self, stages: Sequence[str], needs: Mapping[str, StageNeed], cluster: Cluster | None = None
    ) -> None:
        self.cluster = cluster
        self._needs = [needs.get(name, StageNeed()) for name in stages]
        most = np.array([need.max_replicas for need in self._needs], dtype=np.int64)
        if cluster is None:
            self.classes: tuple[str, ...] = (CORE,)
            self.price: Floats = np.ones((len(stages), 1))
            self.speed: Floats = np.ones((len(stages), 1))
            self.limit: Ints = most[:, None]
            return
        self.classes = tuple(found.name for found in cluster.classes)
        shape = (len(stages), len(self.classes))
        self.price, self.speed, self.limit = np.zeros(shape), np.ones(shape), np.zeros(shape, np.int64)
        self._on = [np.flatnonzero(cluster.class_of == place) for place in range(len(self.classes))]
        for stage, need in enumerate(self._needs):
            for place in range(len(self.classes)):
                self.speed[stage, place] = _speed(cluster, place, need, stages[stage])
                nodes = self._on[place]
                if len(nodes):
                    self.price[stage, place] = cluster.cost(int(nodes[0]), CORES_PER_REPLICA, need.memory_gb)
                self.limit[stage, place] = min(int(most[stage]), self._limit(need, nodes))

    def _limit(self, need: StageNeed, nodes: Ints) -> int:
        cluster = self.cluster
        assert cluster is not None
        fitting = np.floor(cluster.cores[nodes] / CORES_PER_REPLICA + ROUNDING)
        fitting = np.minimum(fitting, np.floor(cluster.memory_gb[nodes] / need.memory_gb + ROUNDING))
        return AntiAffinity(need.spread, cluster).most_replicas(nodes, fitting)

    def cost(self, sizes: Sequence[StageSize]) -> float:
        """Cost of all replicas in an hour; without a cluster, their number of cores."""
        return float(sum(size.replicas * self.price[i, size.node_class] for i, size in enumerate(sizes)))

    def fits(self, sizes: Sequence[StageSize]) -> bool:
        """Whether all replicas find room together."""
        if any(size.replicas > self.limit[i, size.node_class] for i, size in enumerate(sizes)):
            return False
        return self.cluster is None or self.packed(sizes) is not None

    def packed(self, sizes: Sequence[StageSize]) -> list[list[int]] | None:
        """Nodes of every stage's replicas, as indices in the cluster; None where they do not fit.

        First come the stages with the strictest spread, then the largest. A replica goes to the zone, then to
        the node, with the fewest of its stage, and of those to the one with the most free cores.
        """
        cluster = self.cluster
        assert cluster is not None
        cores, memory_gb = cluster.cores.copy(), cluster.memory_gb.copy()
        found: list[list[int]] = [[] for _ in sizes]
        strict = (Spread.ZONE, Spread.NODE, Spread.NONE)
        order = sorted(
            (i for i, size in enumerate(sizes) if size.replicas),
            key=lambda i: (strict.index(self._needs[i].spread), -self._needs[i].memory_gb, i),
        )
        for stage in order:
            need, nodes = self._needs[stage], self._on[sizes[stage].node_class]
            here = np.zeros(len(cluster.nodes), np.int64)
            zone, anti_affinity = cluster.zones, AntiAffinity(need.spread, cluster)
            open_nodes = anti_affinity.open_nodes(())
            for _ in range(sizes[stage].replicas):
                there = np.bincount(zone, here)[zone]
                fit = (cores[nodes] >= CORES_PER_REPLICA - ROUNDING) & (
                    memory_gb[nodes] >= need.memory_gb - ROUNDING
                )
                fit &= open_nodes[nodes]
                if not fit.any():
                    return None
                free = nodes[fit]
                chosen = int(free[np.lexsort((free, -cores[free], here[free], there[free]))[0]])
                cores[chosen] -= CORES_PER_REPLICA
                memory_gb[chosen] -= need.memory_gb
                here[chosen] += 1
                anti_affinity.close(chosen, open_nodes)
                found[stage].append(chosen)
        return found

    def need(self, stage: int) -> StageNeed:
        """What the replicas of a stage need, by its index."""
        return self._needs[stage]


def _speed(cluster: Cluster, place: int, need: StageNeed, stage: str) -> float:
    found = cluster.classes[place]
    speed = need.speeds.get(found.name, found.speed)
    if speed is None and len(cluster.classes) == 1:
        return 1.0
    if speed is None:
        whose = f"its speed for stage {stage!r}" if need.speeds else "its speed"
        raise InputError(
            f"class {found.name!r}: {whose} is not known; give the class a `speed`, as a factor of the "
            "machine that the profile was recorded on, or predictions for its stages",
            where="nodes",
        )
    return speed
