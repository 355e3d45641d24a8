"""Goals of a packing: capacities to keep, penalties to avoid, and the cost of nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.packing.later_moments import LaterUse
from kwiken.allocator.packing.margin import chance_above
from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster
from kwiken.allocator.packing.tasks.usage import Use
from kwiken.base.arrays import Bools, Floats, Ints

LEVEL_WIDTH: Final = 2.0  # standard deviations that count in the level of a node
Penalty = Callable[[Floats, Ints], Floats]


@dataclass(frozen=True, eq=False)
class PackingGoal:
    """Constraints and penalty of a packing.

    Attributes:
        hard: (t, k) requirement of each task; sums are kept within `capacity`.
        capacity: (n, k) capacity of each node.
        soft: (c, t, f) amounts of each task on a node of each class, which `penalty` takes the sums of.
        penalty: function of (m, f) sums and the indices of their m nodes, to (m,) penalties of 0 or more.
        level: function as `penalty`, whose least value says which node receives a task, so that penalties
            stay small everywhere; None to take the node where the least penalty is added.
        node_cost: (n,) cost of each node, above 0.
        spread: share of an owner's replicas that one node may hold, above 0 and at most 1; at least one may
            always stand there.
        apart: (t,) whether no two replicas of the task's owner may share a node.
    """

    hard: Floats
    capacity: Floats
    soft: Floats
    penalty: Penalty
    level: Penalty | None
    node_cost: Floats
    spread: float
    apart: Bools

    def per_node(self, owner: Ints) -> Ints:
        """Most replicas of each owner that one node may receive.

        Args:
            owner: (t,) number of each task's owner, from 0.
        """
        counts = np.bincount(owner)
        found = np.array(
            [max(1, math.ceil(self.spread * count)) for count in counts.tolist()], dtype=np.int64
        )
        found[owner[self.apart]] = 1
        return found


def node_costs(packed: PackedCluster) -> Floats:
    """Cost of each node in an hour; without prices, the mean of its shares of the largest node.

    Returns:
        (n,) costs, above 0.
    """
    cluster = packed.cluster
    prices = [found.cost_per_hour for found in cluster.classes]
    if all(price is not None for price in prices):
        return np.array([float(price or 0.0) for price in prices])[cluster.class_of]
    share = cluster.cores / cluster.cores.max() + cluster.memory_gb / cluster.memory_gb.max()
    return np.asarray(share / 2, dtype=np.float64)


def use_goal(packed: PackedCluster, use: Use, spread: float, chance: LaterUse | float) -> PackingGoal:
    """Pack by use: memory and tasks are kept within the node, the chance that cores run out is the penalty.

    Args:
        spread: share of an owner's replicas that one node may hold.
        chance: distributions of the use that is to come; or, to take a node's use as normal, the factor on
            the standard deviation, as `learned_factor` finds it.
    """
    cores = packed.cluster.cores

    def level(sums: Floats, nodes: Ints) -> Floats:
        fill = sums[:, 0] + LEVEL_WIDTH * np.sqrt(np.maximum(sums[:, 1], 0.0))
        return np.asarray(fill / cores[nodes], dtype=np.float64)

    if isinstance(chance, LaterUse):
        penalty, moments = _chance_by_moments(cores, chance), chance.logs
    else:
        penalty, moments = _chance_by_deviation(cores, chance), np.zeros((len(use.mean), 0))
    soft = np.concatenate([use.mean[:, None], use.variance[:, None], moments], axis=1)
    return PackingGoal(
        hard=np.stack([use.mean, use.memory_gb, np.ones(len(use.mean))], axis=1),
        capacity=np.stack([cores, packed.cluster.memory_gb, packed.most_tasks], axis=1),
        soft=np.broadcast_to(soft, (len(packed.cluster.classes), *soft.shape)),
        penalty=penalty,
        level=level,
        node_cost=node_costs(packed),
        spread=spread,
        apart=packed.apart,
    )


def _chance_by_deviation(cores: Floats, factor: float) -> Penalty:
    def penalty(sums: Floats, nodes: Ints) -> Floats:
        return chance_above(sums[:, 0], sums[:, 1], cores[nodes], factor)

    return penalty


def _chance_by_moments(cores: Floats, later: LaterUse) -> Penalty:
    def penalty(sums: Floats, nodes: Ints) -> Floats:
        return later.chance(sums[:, -len(later.slopes) :], cores[nodes])

    return penalty
