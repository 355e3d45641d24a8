"""Packers of tasks into few nodes of one size, from nothing: what packing by use is judged by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kwiken.allocator.packing.goals import use_goal
from kwiken.allocator.packing.later_moments import LaterUse
from kwiken.allocator.packing.margin import levelled, sums_of
from kwiken.allocator.packing.swaps import settled
from kwiken.allocator.packing.tasks.packed_cluster import plain_cluster
from kwiken.allocator.packing.tasks.usage import Use, nearest_rank
from kwiken.base.arrays import Floats, Ints
from kwiken.model.nodes.nodes import Cluster, Node, NodeClass

ROUNDING = 1e-9


def by_percentile(cores: Floats, percentile: float, capacity: float, *, best: bool) -> Ints:
    """Sum of percentiles: first fit or best fit, the largest task first.

    Args:
        cores: (t, s) use of each task.
        percentile: percentile of each task's use that is reserved, above 0 and at most 100.
        capacity: cores of a node.
        best: whether the fullest node with room is taken, and not the first.

    Returns:
        (t,) node of each task, numbered from 0.
    """
    sizes = nearest_rank(cores, percentile)
    free = np.full(len(sizes), capacity)
    found, used = np.empty(len(sizes), dtype=np.int64), 0
    for task in np.argsort(-sizes, kind="stable").tolist():
        fits = np.flatnonzero(free[:used] >= sizes[task] - ROUNDING)
        if not fits.size:
            node, used = used, used + 1
        else:
            node = int(fits[np.argmin(free[fits])] if best else fits[0])
        free[node] -= sizes[task]
        found[task] = node
    return found


def joint_at_its_word(cores: Floats, percentile: float, capacity: float) -> Ints:
    """Percentile of the sum of series, best fit: what was seen together is taken to come again.

    Args:
        cores: (t, s) use of each task.
        percentile: percentile of a node's joint use that must fit, above 0 and at most 100.
        capacity: cores of a node.

    Returns:
        (t,) node of each task, numbered from 0.
    """
    sums = np.zeros_like(cores)
    found, used = np.empty(len(cores), dtype=np.int64), 0
    for task in np.argsort(-nearest_rank(cores, percentile), kind="stable").tolist():
        joint = nearest_rank(sums[:used] + cores[task], percentile) if used else np.zeros(0)
        fits = np.flatnonzero(joint <= capacity)
        if not fits.size:
            node, used = used, used + 1
        else:
            node = int(fits[np.argmax(joint[fits])])
        sums[node] += cores[task]
        found[task] = node
    return found


def by_later_use(use: Use, later: LaterUse, capacity: float, nodes: int) -> tuple[Ints, float]:
    """Levelled nodes, settled by the use that is to come.

    Args:
        use: statistics of the tasks' use.
        later: distributions of the use that is to come.
        capacity: cores of a node.
        nodes: number of nodes, 2 or more.

    Returns:
        (t,) node of each task, numbered from 0, and the chance that is told: that a node is above its
        capacity, mean of the nodes.
    """
    count = len(use.mean)
    names, none = tuple(str(task) for task in range(count)), np.zeros(count)
    cluster = Cluster(
        (NodeClass(name="node", cores=capacity, memory_gb=1.0),),
        tuple(Node(f"node-{at}", "node") for at in range(nodes)),
    )
    start = levelled(use.mean, use.variance, nodes)
    packed = plain_cluster(cluster, names, names, use.mean, none, start)
    goal = use_goal(packed, replace(use, memory_gb=none), 1.0, later)
    free, to = (np.ones(each, dtype=np.bool_) for each in (count, nodes))
    node = settled(packed, goal, start, free, to)
    told = later.chance(sums_of(later.logs, node, nodes), np.full(nodes, capacity))
    return node, float(told.mean())
