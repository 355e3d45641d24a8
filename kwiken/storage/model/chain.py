"""Closed walks over counted moves: a random order of all moves in which each begins where the last one ended.

A source state leaves its node at the first level at which the target's node differs. The targets of a node
are shared by all states in it, which keeps transitions linear in the states; how often a state leaves, and
is entered, at each level is its own.

A walk takes every counted move as often as it was counted, so that the shares of states and classes are those
of the trace to the last I/O, whatever the seed. What is random is which source takes which move of its node,
which state of a node each move enters, and the order. Moves are matched at random first, which leaves closed
walks apart from each other; those that meet in a state, or in moves of one node, are then made one by
exchanging what follows (the walks of Aldous and of van Aardenne-Ehrenfest and de Bruijn, 1951, along a
spanning tree). A trace whose last I/O is followed by its first one is a closed walk, so one is always left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, depth_first_order, minimum_spanning_tree

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.storage.model.document import StreamModel
from kwiken.storage.model.states import StateTree, node_number


@dataclass(frozen=True, eq=False)
class Moves:
    """Moves from state to state.

    Attributes:
        source: (t,) state that each move leaves.
        target: (t,) state that each move enters.
        left: (t,) node whose states share the move.
        entered: (t,) node whose states the move may enter.
        number: (t,) class of the I/O that is issued in the target.
    """

    source: Ints
    target: Ints
    left: Ints
    entered: Ints
    number: Ints

    def __len__(self) -> int:
        return len(self.source)

    def taken(self, chosen: Ints) -> Moves:
        """Moves at these positions, in this order."""
        return Moves(
            self.source[chosen],
            self.target[chosen],
            self.left[chosen],
            self.entered[chosen],
            self.number[chosen],
        )


def moves_of(stream: StreamModel, tree: StateTree, times: int, rng: np.random.Generator) -> Moves:
    """Moves of a stream, which state takes and enters each drawn anew.

    Args:
        tree: states of the stream's volume.
        times: how often to take each counted move.

    Raises:
        InputError: counts of transitions, departures, entries and states do not agree.
    """
    _check_counts(stream)
    level, left, entered, number, count = np.array(stream.transitions, dtype=np.int64).T
    loop = left == entered
    row = np.repeat(np.arange(len(count)), count * times)
    found = Moves(
        np.full(len(row), -1),
        np.full(len(row), -1),
        node_number(level, left)[row],
        node_number(level, entered)[row],
        number[row],
    )
    stays = np.flatnonzero(loop[row])
    nodes = node_number(tree.level, tree.index)
    order = np.argsort(nodes)
    place = np.minimum(np.searchsorted(nodes[order], found.left[stays]), len(nodes) - 1)
    if not np.array_equal(nodes[order[place]], found.left[stays]):
        raise InputError("transitions: a range that is no state follows itself", where="model: streams")
    found.source[stays] = found.target[stays] = order[place]
    moved = np.flatnonzero(~loop[row])
    for rows, node, states in (
        (stream.departures, found.left, found.source),
        (stream.entries, found.entered, found.target),
    ):
        shuffled = rng.permutation(moved)
        shuffled = shuffled[np.argsort(node[shuffled], kind="stable")]
        states[shuffled] = _slots(tree, rows, times, node[shuffled])
    return found


def _check_counts(stream: StreamModel) -> None:
    """Refuse counts that do not agree, before as many places are made as they say."""
    ios = sum(stream.occupancy)
    moved = sum(row[4] for row in stream.transitions if row[1] != row[2])
    if sum(row[4] for row in stream.transitions) != ios:
        raise InputError("transitions: counts do not add up to those of occupancy", where="model: streams")
    for name, rows in (("entries", stream.entries), ("departures", stream.departures)):
        if sum(row[2] for row in rows) != moved:
            raise InputError(f"{name}: counts do not add up to those of transitions", where="model: streams")


def _slots(tree: StateTree, rows: list[tuple[int, int, int]], times: int, wanted: Ints) -> Ints:
    """(n,) states by the rows of level, state and count, in the order of their nodes.

    Args:
        wanted: (n,) node of each, ascending.
    """
    if not rows:
        return np.empty(0, dtype=np.int64)
    level, leaf, count = np.array(rows, dtype=np.int64).T
    up = tree.level[leaf] - level
    node = node_number(level, tree.index[leaf] >> 2 * np.maximum(up, 0))
    order = np.argsort(node, kind="stable")
    states = np.repeat(leaf[order], count[order] * times)
    if (up < 0).any() or not np.array_equal(np.repeat(node[order], count[order] * times), wanted):
        raise InputError("entries, departures: do not agree with transitions", where="model: streams")
    return states


def free_order(moves: Moves, pieces: int, rng: np.random.Generator) -> Moves:
    """All moves in a random order, whatever state each one left; each piece enters states as often as others.

    Args:
        moves: moves of which none depends on the one before.
        pieces: number of pieces that the order is to be cut into, of about the same length.
    """
    count = len(moves)
    ordered = np.lexsort((rng.random(count), moves.number, moves.target))
    # Of `pieces` moves that follow each other by their states, each piece gets one.
    piece = np.empty(count, dtype=np.int64)
    piece[np.lexsort((rng.random(count), np.arange(count) // pieces))] = np.arange(count) % pieces
    found = moves.taken(ordered[np.lexsort((rng.random(count), piece))])
    return replace(found, source=np.roll(found.target, 1))


def closed_walk(moves: Moves, rng: np.random.Generator) -> Moves:
    """All moves in a random order, each from where the last one ended, and the first from where all end.

    Raises:
        InputError: a state is entered and left at different times, or no walk takes all moves.
    """
    into = _shuffled_by(moves.target, rng)
    out = _shuffled_by(moves.source, rng)
    if not np.array_equal(moves.target[into], moves.source[out]):
        raise InputError("entries, departures: states are not left as often as entered", where="model")
    after = np.empty(len(moves), dtype=np.int64)
    after[into] = out
    # What follows is exchanged between walks that meet in a state,
    one, other = _exchanged(after, moves.target, rng)
    after[one] = after[other]
    # then together with the state that is entered,
    one, other = _exchanged(after, moves.entered, rng)
    target = moves.target.copy()
    after[one], target[one] = after[other], target[other]
    # then what came before, together with the state that is left.
    one, other = _exchanged(after, moves.left, rng)
    source, before = moves.source.copy(), np.argsort(after)
    before[one], source[one] = before[other], source[other]
    after = np.argsort(before)
    order = depth_first_order(_graph(after), int(rng.integers(len(moves))), return_predecessors=False)
    if len(order) != len(moves):
        raise InputError("transitions: no walk takes all of them", where="model")
    return replace(moves, source=source, target=target).taken(order.astype(np.int64))


def _shuffled_by(group: Ints, rng: np.random.Generator) -> Ints:
    shuffled = rng.permutation(len(group))
    return shuffled[np.argsort(group[shuffled], kind="stable")]


def _graph(after: Ints) -> csr_matrix:
    count = len(after)
    return csr_matrix((np.ones(count, dtype=np.int8), after, np.arange(count + 1)), shape=(count, count))


def _exchanged(after: Ints, group: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Moves that exchange what follows them, and the moves that each takes this from.

    Along a spanning tree of closed walks and groups no exchange parts what another one joins.

    Args:
        after: (t,) move after each one.
        group: (t,) group within which moves may exchange what follows them.
    """
    walks, walk = connected_components(_graph(after), directed=False)
    if walks == 1:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    groups, member = np.unique(group, return_inverse=True)
    shuffled = rng.permutation(len(after))
    key = walk.astype(np.int64) * len(groups) + member
    meetings, first = np.unique(key[shuffled], return_index=True)
    nodes = walks + len(groups)
    pairs = (meetings // len(groups), walks + meetings % len(groups))
    weight: Floats = 1.0 + rng.random(len(meetings))
    kept = minimum_spanning_tree(coo_matrix((weight, pairs), shape=(nodes, nodes)).tocsr()).tocoo()
    at = np.searchsorted(meetings, kept.row.astype(np.int64) * len(groups) + kept.col - walks)
    one = shuffled[first[at]]
    one = one[np.argsort(member[one], kind="stable")]
    begins = np.flatnonzero(np.concatenate(([True], np.diff(member[one]) > 0)))
    ends = np.concatenate((begins[1:], [len(one)])) - 1
    other = np.roll(one, -1)
    other[ends] = one[begins]
    return one, other
