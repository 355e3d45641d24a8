"""Walks over the states of one stream: hierarchical transitions flattened into rows, many walkers at once.

A source state leaves its node at the first level at which the target's node differs. The targets of a node
are shared by all states in it, which keeps transitions linear in the states; how often a state leaves at each
level is its own. After a move the state in the target node is drawn from that node's arrivals at the level.
So the flow into each state is that of the trace, and with it the share of the I/Os in each state.

Walkers of one stream move together, and those in one state share stratified coins (array-RQMC, L'Ecuyer et
al. 2008): each walker is a sample of the chain, and shares over all walkers hardly vary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from kwiken.storage.model.document import StreamModel
from kwiken.storage.model.states import StateTree, node_number

MAX_WALKERS: Final = 4096


@dataclass(frozen=True, eq=False)
class StateChain:
    """Rows of outcomes of every state of a stream.

    Attributes:
        row: (s + 1,) first outcome of each state.
        cumulative: (m,) chance of outcomes up to each one within its row, plus the number of the row.
        outcome: (m,) transition of each outcome.
        first: (t,) first state of each transition's target node.
        last: (t,) state after the last of that node.
        level: (t,) level of the target node; its arrivals are those of this level.
        entry: (d + 1, s + 1) cumulative number of arrivals by state, for each level.
        class_row: (t + 1,) first class of each transition.
        class_cumulative: (c,) chance of classes up to each one within its transition, plus its number.
        class_of: (c,) class of each of these.
        occupancy: (s,) share of the I/Os in each state.
        quarter: (s,) state of level 1 that each state is part of.
    """

    row: Ints
    cumulative: Floats
    outcome: Ints
    first: Ints
    last: Ints
    level: Ints
    entry: Floats
    class_row: Ints
    class_cumulative: Floats
    class_of: Ints
    occupancy: Floats
    quarter: Ints

    def walk(self, length: int, rng: np.random.Generator) -> tuple[Ints, Ints, Bools]:
        """States and classes of consecutive I/Os.

        Args:
            length: number of I/Os to draw.

        Returns:
            (length,) state of each I/O, (length,) class of each, and (length,) whether the I/O begins a walk
            far from where the one before it ended, so that no sequence leads to it.
        """
        walkers = int(min(MAX_WALKERS, max(1, round(length**0.5))))
        steps = -(-length // walkers)
        starts = np.searchsorted(np.cumsum(self.occupancy), _even(walkers, rng) * (1 - 1e-12), side="right")
        state = rng.permutation(np.minimum(starts, len(self.occupancy) - 1))
        begun = state.copy()
        states, classes = np.empty((walkers, steps), np.int64), np.empty((walkers, steps), np.int64)
        for step in range(steps):
            state, classes[:, step] = self._moved(state, rng)
            states[:, step] = state
        joined = _joined(begun, state)
        far = np.zeros((walkers, steps), dtype=bool)
        far[1:, 0] = self.quarter[begun[joined[1:]]] != self.quarter[state[joined[:-1]]]
        return states[joined].ravel()[:length], classes[joined].ravel()[:length], far.ravel()[:length]

    def _moved(self, state: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        place = np.searchsorted(self.cumulative, state + _stratified(state, rng), side="right")
        taken = self.outcome[np.minimum(place, self.row[state + 1] - 1)]
        place = np.searchsorted(self.class_cumulative, taken + _stratified(taken, rng), side="right")
        classes = self.class_of[np.minimum(place, self.class_row[taken + 1] - 1)]
        level, low, high = self.level[taken], self.first[taken], self.last[taken]
        after = low.copy()
        coins = _stratified(taken, rng)
        for each in np.unique(level[high - low > 1]):
            chosen = (level == each) & (high - low > 1)
            arrivals = self.entry[each]
            mass = arrivals[low[chosen]] + coins[chosen] * (arrivals[high[chosen]] - arrivals[low[chosen]])
            after[chosen] = np.clip(
                np.searchsorted(arrivals, mass, side="right") - 1, low[chosen], high[chosen] - 1
            )
        return after, classes


def chain_of(stream: StreamModel, tree: StateTree) -> StateChain:
    """Chain of a stream over the states of its volume."""
    rows = np.array(stream.transitions, dtype=np.int64)
    level, source, target, number, count = rows.T
    origin, end = node_number(level, source), node_number(level, target)
    keys, which = np.unique(np.stack((origin, end), axis=1), axis=0, return_inverse=True)
    which = which.ravel()
    first_row = np.unique(which, return_index=True)[1]
    t_level, t_source, t_target = level[first_row], source[first_row], target[first_row]
    total: Floats = np.bincount(which, weights=count, minlength=len(keys)).astype(np.float64)
    first, last = _leaves_of(tree, t_level, t_target)
    entry = np.zeros((tree.depth + 1, len(tree) + 1))
    entry[:, 1:] = np.cumsum(_by_level(tree, stream.entries), axis=1)
    occupancy = np.array(stream.occupancy, dtype=np.float64)
    row, cumulative, outcome = _rows(tree, stream, t_level, t_source, t_target, total)
    order = np.argsort(which, kind="stable")
    class_row = np.concatenate(([0], np.cumsum(np.bincount(which, minlength=len(keys)))))
    share = count[order] / total[which[order]]
    before = np.cumsum(share) - share
    class_cumulative = which[order] + before - before[class_row[which[order]]] + share
    return StateChain(
        row,
        cumulative,
        outcome,
        first,
        last,
        t_level,
        entry,
        class_row,
        class_cumulative,
        number[order],
        occupancy / occupancy.sum(),
        tree.quarter_of(np.arange(len(tree))),
    )


def _leaves_of(tree: StateTree, level: Ints, index: Ints) -> tuple[Ints, Ints]:
    """First state of each node, and the state after its last."""
    span = 2 * (tree.depth - tree.level)
    left = tree.index << span
    width = 2 * (tree.depth - np.minimum(level, tree.depth))
    return (
        np.searchsorted(left, index << width, side="left"),
        np.searchsorted(left, (index + 1) << width, side="left"),
    )


def _rows(
    tree: StateTree, stream: StreamModel, level: Ints, source: Ints, target: Ints, total: Floats
) -> tuple[Ints, Floats, Ints]:
    """Outcomes of every state with their chances: it leaves at a level, or stays, at its own rates."""
    low, high = _leaves_of(tree, level, source)
    spread = high - low
    which = np.repeat(np.arange(len(level)), spread)
    states = low[which] + np.arange(len(which)) - np.repeat(np.cumsum(spread) - spread, spread)
    gone = _by_level(tree, stream.departures)
    visits = np.maximum(np.array(stream.occupancy, dtype=np.float64), 1.0)
    loop = source == target
    # Moves that leave one node share its targets; a loop is a target of its own.
    node = node_number(level, source) * 2 + loop
    of_node = np.unique(node, return_inverse=True)[1]
    share = total / np.bincount(of_node, weights=total)[of_node]
    stays = visits - gone.sum(axis=0)
    chance = np.where(loop[which], stays[states], gone[level[which], states] * share[which]) / visits[states]
    states, which, chance = _where_possible(len(tree), states, which, chance)
    row = np.searchsorted(states, np.arange(len(tree) + 1))
    mass = np.bincount(states, weights=chance, minlength=len(tree))
    chance /= mass[states]
    before = np.cumsum(chance) - chance
    return row, states + before - before[row[states]] + chance, which


def _where_possible(count: int, states: Ints, which: Ints, chance: Floats) -> tuple[Ints, Ints, Floats]:
    """Outcomes with a chance, by state; a state without any, which no I/O was in, takes the first outcome."""
    mass = np.bincount(states, weights=chance, minlength=count)
    stuck = np.flatnonzero(mass <= 0)
    kept = chance > 0
    states = np.concatenate((states[kept], stuck))
    which = np.concatenate((which[kept], np.zeros(len(stuck), dtype=np.int64)))
    chance = np.concatenate((chance[kept], np.ones(len(stuck))))
    order = np.lexsort((which, states))
    return states[order], which[order], chance[order]


def _by_level(tree: StateTree, rows: list[tuple[int, int, int]]) -> Floats:
    """(d + 1, s) counts of rows of level, state and count."""
    found = np.zeros((tree.depth + 1, len(tree)))
    for level, leaf, count in rows:
        if level <= tree.depth:
            found[level, leaf] += count
    return found


def _even(count: int, rng: np.random.Generator) -> Floats:
    even: Floats = (np.arange(count) + rng.random(count)) / count
    return even


def _stratified(group: Ints, rng: np.random.Generator) -> Floats:
    """(n,) coins that are spread evenly over the members of each group, in random order."""
    shuffled = rng.permutation(len(group))
    order = shuffled[np.argsort(group[shuffled], kind="stable")]
    ordered = group[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(np.concatenate((first, [len(group)])))
    coins = np.empty(len(group))
    coins[order] = (np.arange(len(group)) - np.repeat(first, lengths) + rng.random(len(group))) / np.repeat(
        lengths, lengths
    )
    return np.minimum(coins, 1 - 1e-12)


def _joined(begun: Ints, ended: Ints) -> Ints:
    """Order of walks in which nearly each begins in the state where the one before it ended."""
    count = len(begun)
    follower = np.full(count, -1, dtype=np.int64)
    key_of_start, key_of_end = _ranked(begun), _ranked(ended)
    _, starts, ends = np.intersect1d(key_of_start, key_of_end, assume_unique=True, return_indices=True)
    follower[ends] = starts
    spare = np.setdiff1d(np.arange(count), starts, assume_unique=True)
    follower[follower < 0] = spare
    order, seen = [], np.zeros(count, dtype=bool)
    for walk in range(count):
        at = walk
        while not seen[at]:
            seen[at] = True
            order.append(at)
            at = int(follower[at])
    return np.array(order)


def _ranked(state: Ints) -> Ints:
    order = np.argsort(state, kind="stable")
    ordered = state[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    lengths = np.diff(np.concatenate((first, [len(state)])))
    place = np.empty(len(state), dtype=np.int64)
    place[order] = np.arange(len(state)) - np.repeat(first, lengths)
    return state * len(state) + place
