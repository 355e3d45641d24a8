"""Order in which nodes are freed: whole nodes are drained one after another, each onto nodes that stay.

A single move from a node with two tasks frees nothing, so the unit is the drain of a node. Every step is one
drain. The next node is the one of a few cheap ones (least moves for each unit of cost that is freed) whose
drain adds the least penalty for each unit of cost. The order does not depend on the dial: the dial chooses
how many steps are taken, so turning it never trades one set of moves for another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.packing.goals import PackingGoal
from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster
from kwiken.base.arrays import Bools, Floats, Ints

COMPARED: Final = 8  # nodes whose drains are tried before one is chosen
ROOM: Final = 1e-9  # rounding of sums


@dataclass(frozen=True)
class Move:
    """Move of one task.

    Attributes:
        task: index of the task.
        source: index of the node that it leaves.
        target: index of the node that it goes to.
    """

    task: int
    source: int
    target: int


@dataclass(frozen=True)
class DrainStep:
    """Moves that free a node, or that bring a node back within its capacity.

    Attributes:
        freed: index of the node that is free afterwards; None for a node that was beyond its capacity.
        moves: moves in the order in which they were found; a task may go on from a node that is drained
            later.
        displaced: number of tasks that are on another node than at first, with all steps so far.
        penalty: sum of the penalties of all nodes afterwards.
    """

    freed: int | None
    moves: tuple[Move, ...]
    displaced: int
    penalty: float


class _State:
    """Sums of every node, kept up to date while tasks move."""

    def __init__(self, packed: PackedCluster, goal: PackingGoal) -> None:
        self.packed, self.goal = packed, goal
        self.node = packed.node.copy()
        self.class_of = packed.cluster.class_of
        nodes = len(packed.cluster.nodes)
        self.hard = np.zeros((nodes, goal.hard.shape[1]))
        np.add.at(self.hard, self.node, goal.hard)
        self.soft = np.zeros((nodes, goal.soft.shape[2]))
        np.add.at(self.soft, self.node, goal.soft[self.class_of[self.node], np.arange(len(self.node))])
        self.penalty = goal.penalty(self.soft, np.arange(nodes))
        self.on: list[set[int]] = [set() for _ in range(nodes)]
        for task, node in enumerate(self.node.tolist()):
            self.on[node].add(task)
        self.movable = packed.movable
        self.owner = packed.owner_numbers
        self.displaced = 0  # tasks that are on another node than at first
        self.fresh = np.zeros(nodes, dtype=np.int64)  # tasks of a node that stand where they stood at first
        np.add.at(self.fresh, self.node[~packed.resident], 1)
        self.members = np.zeros(nodes, dtype=np.int64)  # tasks that keep the node in use
        np.add.at(self.members, self.node[~packed.resident], 1)
        self.held = np.zeros(nodes, dtype=np.bool_)  # nodes with a task that cannot be moved
        self.held[self.node[~packed.resident & ~self.movable]] = True
        self.limit = goal.per_node(self.owner)
        self.tasks_of: dict[int, list[int]] = {}
        for task, owner in enumerate(self.owner.tolist()):
            self.tasks_of.setdefault(owner, []).append(task)
        self.receives = packed.open_nodes & (self.members > 0)

    def move(self, task: int, target: int) -> Move:
        source = int(self.node[task])
        for node, sign in ((source, -1.0), (target, 1.0)):
            self.hard[node] += sign * self.goal.hard[task]
            self.soft[node] += sign * self.goal.soft[self.class_of[node], task]
            self.members[node] += int(sign)
        both = np.array([source, target])
        self.penalty[both] = self.goal.penalty(self.soft[both], both)
        first = int(self.packed.node[task])
        for node, sign in ((source, -1), (target, 1)):
            self.displaced -= sign * (node == first)
            self.fresh[node] += sign * (node == first)
        self.on[source].discard(task)
        self.on[target].add(task)
        self.node[task] = target
        return Move(task, source, target)

    def target_of(self, task: int) -> int | None:
        """Node on which a task does the least harm; None if none has room for it."""
        source = int(self.node[task])
        fits = self.receives & self.packed.allowed[self.packed.kinds[task]]
        fits &= np.all(self.hard + self.goal.hard[task] <= self.goal.capacity + ROOM, axis=1)
        fits[source] = False
        owner = int(self.owner[task])
        siblings = self.tasks_of[owner]
        if len(siblings) > 1:
            beside = np.bincount(self.node[siblings], minlength=len(fits))
            fits &= beside < self.limit[owner]
        nodes = np.flatnonzero(fits)
        if not nodes.size:
            return None
        after = self.soft[nodes] + self.goal.soft[self.class_of[nodes], task]
        if self.goal.level is not None:
            return int(nodes[int(np.argmin(self.goal.level(after, nodes)))])
        added = self.goal.penalty(after, nodes) - self.penalty[nodes]
        # Equal penalties: the node with the least room left, so that others stay free for large tasks.
        room = np.min((self.goal.capacity[nodes] - self.hard[nodes]) / self.goal.capacity[nodes], axis=1)
        return int(nodes[int(np.lexsort((room, np.round(added, 12)))[0])])

    def drain(self, node: int) -> tuple[list[Move], float] | None:
        """Move all tasks off a node; None, with everything as before, if one of them has no place."""
        before = float(self.penalty.sum())
        was, self.receives[node] = bool(self.receives[node]), False
        moves: list[Move] = []
        tasks = [task for task in self.on[node] if not self.packed.resident[task]]
        tasks.sort(key=lambda task: (-float(np.max(self.goal.hard[task] / self.goal.capacity[node])), task))
        for task in tasks:
            found = self.target_of(task)
            if found is None:
                self.undo(moves)
                self.receives[node] = was
                return None
            moves.append(self.move(task, found))
        self.receives[node] = was
        return moves, float(self.penalty.sum()) - before

    def undo(self, moves: list[Move]) -> None:
        for one in reversed(moves):
            self.move(one.task, one.source)


def drain_steps(packed: PackedCluster, goal: PackingGoal, max_moves: int) -> Iterator[DrainStep]:
    """Steps that free nodes one after another, until no node can be freed or the moves are spent.

    Nodes that are beyond their capacity are relieved first, as far as moves and room allow.

    Args:
        max_moves: most tasks that may end on another node than at first, 0 or more.
    """
    state = _State(packed, goal)
    yield from _relieved(state, max_moves)
    cost = goal.node_cost
    candidates = (state.members > 0) & ~state.held
    while True:
        nodes = np.flatnonzero(candidates & (state.fresh + state.displaced <= max_moves))
        if not nodes.size:
            return
        order = np.lexsort((-cost[nodes], state.fresh[nodes] / cost[nodes]))
        chosen = _cheapest(state, nodes[order], candidates)
        if chosen is None:
            return
        found = state.drain(chosen)
        if found is None:
            return
        candidates[chosen] = False
        state.receives[chosen] = False
        yield DrainStep(chosen, tuple(found[0]), state.displaced, float(state.penalty.sum()))


def _cheapest(state: _State, order: Ints, candidates: Bools) -> int | None:
    """Of the first nodes in an order that can be drained, the one whose drain adds least for its cost."""
    best: tuple[float, int] | None = None
    tried = 0
    for node in order.tolist():
        found = state.drain(node)
        if found is None:
            candidates[node] = False  # nodes only fill up: what has no place now has none later
            continue
        state.undo(found[0])
        worth = found[1] / float(state.goal.node_cost[node])
        if best is None or worth < best[0] - ROOM:
            best = worth, node
        tried += 1
        if tried == COMPARED:
            break
    return None if best is None else best[1]


def _relieved(state: _State, most: int) -> Iterator[DrainStep]:
    """Steps that bring nodes beyond their capacity back within it, the fullest node first."""
    over = np.max(state.hard / state.goal.capacity, axis=1)
    for node in np.argsort(-over, kind="stable").tolist():
        if over[node] <= 1.0 + ROOM:
            return
        moves: list[Move] = []
        tasks = [task for task in state.on[node] if state.movable[task]]
        tasks.sort(key=lambda task: (float(np.max(state.goal.hard[task] / state.goal.capacity[node])), task))
        while (
            tasks and state.displaced < most and np.any(state.hard[node] > state.goal.capacity[node] + ROOM)
        ):
            task = tasks.pop()
            found = state.target_of(task)
            if found is not None:
                moves.append(state.move(task, found))
        if moves:
            yield DrainStep(None, tuple(moves), state.displaced, float(state.penalty.sum()))


def straightened(node: Ints, steps: Sequence[DrainStep]) -> tuple[DrainStep, ...]:
    """Steps in which each task moves once, at its first move, straight to its last node.

    Nodes that stay in use only fill up while others are drained, so a task has room on its last node from the
    first step on.

    Args:
        node: (t,) index of each task's node before.
        steps: steps as they were found.
    """
    last = after(node, steps)
    found = []
    for step in steps:
        moves = tuple(
            Move(move.task, move.source, int(last[move.task]))
            for move in step.moves
            if move.source == node[move.task] != last[move.task]
        )
        found.append(DrainStep(step.freed, moves, step.displaced, step.penalty))
    return tuple(found)


def after(node: Ints, steps: Sequence[DrainStep]) -> Ints:
    """Node of each task after some steps.

    Args:
        node: (t,) index of each task's node before.
    """
    found = node.copy()
    for step in steps:
        for move in step.moves:
            found[move.task] = move.target
    return found


def cost_of_occupied(packed: PackedCluster, node: Ints, node_cost: Floats) -> float:
    """Cost of all nodes that tasks keep in use.

    Args:
        node: (t,) index of each task's node.
        node_cost: (n,) cost of each node.
    """
    return float(node_cost[packed.occupied(node)].sum())
