"""Moves and swaps that lower the penalties of nodes, with no node more in use.

A task goes to another node, or changes places with another task, whichever lowers the sum of the penalties
most without making the worse of the two nodes worse, until no task of a whole round finds one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.packing.drains import ROOM
from kwiken.allocator.packing.goals import PackingGoal
from kwiken.allocator.packing.margin import sums_of
from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster
from kwiken.base.arrays import Bools, Floats, Ints

MAX_COMPARED: Final = 256  # partners, and nodes, that are compared for a task
MAX_TRIES: Final = 4_000  # tasks for which a better place is looked for, by default
NEGLIGIBLE: Final = 1e-4  # sum of the penalties; with less there is nothing to lower
CHECKED: Final = 8  # best of the compared ones whose other constraints are checked
MIN_GAIN: Final = 5e-5  # of the sum of the penalties; less is not worth a change


@dataclass(frozen=True)
class _Change:
    """Move of a task to another node, in exchange for another task or for none."""

    task: int
    node: int
    partner: int | None


class _Places:
    """Where every task stands, and the sums of every node."""

    def __init__(self, packed: PackedCluster, goal: PackingGoal, node: Ints, free: Ints, to: Ints) -> None:
        self.packed, self.goal = packed, goal
        self.node, self.free, self.to = node.copy(), free, to
        nodes = len(packed.cluster.nodes)
        self.hard = sums_of(goal.hard, node, nodes)
        self.class_of = packed.cluster.class_of
        self.soft = sums_of(self._amounts(node, np.arange(len(node))), node, nodes)
        self.penalty = goal.penalty(self.soft, np.arange(nodes))
        self.owner = packed.owner_numbers
        self.limit = goal.per_node(self.owner)
        order = np.argsort(self.owner, kind="stable")
        self.tasks_of = np.split(order, np.cumsum(np.bincount(self.owner))[:-1])

    def _amounts(self, nodes: Ints | int, tasks: Ints | int) -> Floats:
        """Amounts of tasks on nodes, of which the penalty takes the sums."""
        return np.asarray(self.goal.soft[self.class_of[nodes], tasks], dtype=np.float64)

    def best(self, task: int, rng: np.random.Generator) -> _Change | None:
        """The change of a task that lowers the penalties most, or None."""
        source = int(self.node[task])
        nodes = _some(self.to, rng)
        nodes = nodes[nodes != source]
        partners = _some(self.free, rng)
        partners = partners[self.node[partners] != source]
        with_partner = self.node[partners]
        left = self.soft[source] - self._amounts(source, task)
        moved = np.concatenate(
            [
                left[None],
                self.soft[nodes] + self._amounts(nodes, task),
                left + self._amounts(source, partners),
                self.soft[with_partner]
                - self._amounts(with_partner, partners)
                + self._amounts(with_partner, task),
            ]
        )
        changed_nodes = np.concatenate([[source], nodes, np.full(len(partners), source), with_partner])
        after = self.goal.penalty(moved, changed_nodes)
        alone, received, kept, changed = np.split(after, np.cumsum([1, len(nodes), len(partners)]))
        lower = np.concatenate([np.full(len(nodes), alone[0]), kept])
        higher = np.concatenate([received, changed])
        others = np.concatenate([nodes, with_partner])
        added = lower + higher - self.penalty[source] - self.penalty[others]
        worse = np.maximum(lower, higher) > np.maximum(self.penalty[source], self.penalty[others])
        added[worse] = np.inf
        worth = MIN_GAIN * float(self.penalty.sum())
        for at in np.argsort(added, kind="stable")[:CHECKED].tolist():
            if added[at] > -worth:
                return None
            partner = int(partners[at - len(nodes)]) if at >= len(nodes) else None
            change = _Change(task, int(others[at]), partner)
            if self._fits(change):
                return change
        return None

    def _fits(self, change: _Change) -> bool:
        source = int(self.node[change.task])
        parts = [(change.task, change.node, change.partner)]
        if change.partner is not None:
            parts.append((change.partner, source, change.task))
        return all(self._may_stand(*part) for part in parts)

    def _may_stand(self, task: int, node: int, instead_of: int | None) -> bool:
        if not self.packed.allowed[self.packed.kinds[task], node]:
            return False
        hard = self.hard[node] + self.goal.hard[task]
        beside = int(np.sum(self.node[self.tasks_of[self.owner[task]]] == node))
        if instead_of is not None:
            hard = hard - self.goal.hard[instead_of]
            beside -= int(self.owner[instead_of] == self.owner[task])
        return bool(beside < self.limit[self.owner[task]] and np.all(hard <= self.goal.capacity[node] + ROOM))

    def make(self, change: _Change) -> None:
        source = int(self.node[change.task])
        parts = [(change.task, source, change.node)]
        if change.partner is not None:
            parts.append((change.partner, change.node, source))
        for task, old, new in parts:
            for node, sign in ((old, -1.0), (new, 1.0)):
                self.soft[node] += sign * self._amounts(node, task)
                self.hard[node] += sign * self.goal.hard[task]
            self.node[task] = new
        both = np.array([source, change.node])
        self.penalty[both] = self.goal.penalty(self.soft[both], both)


def settled(
    packed: PackedCluster,
    goal: PackingGoal,
    node: Ints,
    free: Bools,
    to: Bools,
    tries: int = MAX_TRIES,
) -> Ints:
    """Node of each task after moves and swaps of some tasks that lower the penalties of nodes.

    Capacities, nodes that a task may stand on, and how many of an owner's tasks share a node are kept.

    Args:
        node: (t,) index of each task's node.
        free: (t,) whether a task may be moved; the nodes of these tasks are among `to`.
        to: (n,) whether a node may receive tasks.
        tries: most tasks for which a better place is looked for, 1 or more; a task may be tried again.

    Returns:
        (t,) index of each task's node.
    """
    chosen, nodes = np.flatnonzero(free), np.flatnonzero(to)
    if not chosen.size or len(nodes) < 2:  # noqa: PLR2004 - a single node leaves no choice
        return node
    rng = np.random.default_rng(len(chosen))
    places = _Places(packed, goal, node, chosen, nodes)
    if places.penalty.sum() < NEGLIGIBLE:
        return node
    tried = without = 0
    while tried < tries:
        for task in rng.permutation(chosen).tolist():
            tried += 1
            change = places.best(task, rng)
            without = 0 if change is not None else without + 1
            if change is not None:
                places.make(change)
            if without >= len(chosen) or tried >= tries:
                return places.node
    return places.node


def _some(values: Ints, rng: np.random.Generator) -> Ints:
    """All values, or as many drawn as are compared."""
    return values if len(values) <= MAX_COMPARED else rng.choice(values, MAX_COMPARED, replace=False)
