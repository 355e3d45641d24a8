"""States: ranges of a volume's bytes, leaves of a 4-way tree that is refined where accesses are.

A range is split while its accesses are less even over its quarters, or over the quarters of those, than even
ones are in the mean, by chi-square: a state that hides uneven accesses puts them on the wrong side of any
border in it. A tree of equal depth is the hierarchy of the published model; its number of transitions is
`transitions_of_tree`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Ints

BRANCHES: Final = 4
DEPTH: Final = 8  # of the deepest state: 65,536 ranges of a volume
MIN_ACCESSES: Final = 8  # in a range that is split
MAX_SHARE_LEAVES: Final = 512  # a range that is split holds at least this part of the accesses
EVEN_4, EVEN_16 = (
    3.0,
    15.0,
)  # chi-square with 3 and 15 degrees of freedom: what even accesses have in the mean


def transitions_of_tree(levels: int) -> int:
    """Number of transitions of a hierarchical diagram, pairs of states with self loops.

    Args:
        levels: depth of the tree, 1 or more.
    """
    coarser = sum(12 * BRANCHES ** (level - 1) for level in range(1, levels))
    return int(16 * BRANCHES ** (levels - 1) + coarser)


def transitions_flat(levels: int) -> int:
    """Number of transitions of a diagram of all pairs of the same states."""
    return int((BRANCHES**levels) ** 2)


def node_number(level: Ints, index: Ints) -> Ints:
    """(n,) number of a node among all nodes of a complete tree: level by level, from the root."""
    return (BRANCHES**level - 1) // (BRANCHES - 1) + index


@dataclass(frozen=True, eq=False)
class StateTree:
    """Leaves of a tree over one range of bytes, ordered by their first byte.

    Attributes:
        low: first byte of the range.
        high: byte after the range's last.
        level: (s,) depth of each leaf, from 0 for the whole range.
        index: (s,) number of each leaf among the ranges of its depth.
    """

    low: int
    high: int
    level: Ints
    index: Ints

    def __len__(self) -> int:
        return len(self.level)

    @cached_property
    def edges(self) -> Ints:
        """(s + 1,) first byte of each leaf, and the end of the last."""
        width = self.high - self.low
        first = [
            self.low + width * index // BRANCHES**level
            for level, index in zip(self.level.tolist(), self.index.tolist(), strict=True)
        ]
        return np.array([*first, self.high], dtype=np.int64)

    @cached_property
    def depth(self) -> int:
        """Depth of the deepest leaf."""
        return int(self.level.max(initial=0))

    def ancestors(self, level: int) -> Ints:
        """(s,) index of the node of a level that holds each leaf; -1 where the leaf is less deep."""
        up = 2 * (self.level - level)
        return np.where(up >= 0, self.index >> np.maximum(up, 0), -1)

    def leaf_of(self, start: Ints) -> Ints:
        """(n,) leaf of each byte; bytes outside belong to the first or the last."""
        return np.clip(np.searchsorted(self.edges, start, side="right") - 1, 0, len(self) - 1)

    def quarter_of(self, leaf: Ints) -> Ints:
        """(n,) state of level 1 of each leaf."""
        return np.where(self.level > 0, self.ancestors(1), 0)[leaf]


def even_tree(low: int, high: int, levels: int) -> StateTree:
    """Tree whose leaves all have one depth.

    Args:
        levels: depth of the leaves, 0 to `DEPTH`.
    """
    count = BRANCHES**levels
    return StateTree(low, high, np.full(count, levels, dtype=np.int64), np.arange(count))


def refined_tree(start: Ints, low: int, high: int) -> StateTree:
    """Tree that is split where the accesses of a volume are uneven.

    Args:
        start: (n,) first byte of each access, within the range.
    """
    fine = even_tree(low, high, _depth_of(high - low))
    counts = np.bincount(fine.leaf_of(start), minlength=len(fine))
    least = max(MIN_ACCESSES, len(start) // MAX_SHARE_LEAVES)
    open_nodes, leaves = np.zeros(1, dtype=np.int64), []
    for level in range(fine.depth + 1):
        if level == fine.depth or not len(open_nodes):
            split = np.zeros(len(open_nodes), dtype=bool)
        else:
            below = counts.reshape(BRANCHES**level, -1)[open_nodes]
            split = _uneven(below, least)
        leaves.append((level, open_nodes[~split]))
        open_nodes = (open_nodes[split, None] * BRANCHES + np.arange(BRANCHES)).ravel()
    levels = np.concatenate([np.full(len(found), level) for level, found in leaves])
    index = np.concatenate([found for _, found in leaves])
    order = np.argsort(index << 2 * (fine.depth - levels))
    return StateTree(low, high, levels[order], index[order])


def _depth_of(width: int) -> int:
    """Deepest level whose ranges still hold a block of 4 KiB."""
    depth = 0
    while depth < DEPTH and width // BRANCHES ** (depth + 1) >= 1 << 12:
        depth += 1
    return depth


def _uneven(below: Ints, least: int) -> Bools:
    """(n,) whether nodes with these counts of finest ranges are to be split."""
    total = below.sum(axis=1)
    uneven = np.zeros(len(below), dtype=bool)
    for parts, limit in ((BRANCHES, EVEN_4), (BRANCHES**2, EVEN_16)):
        if below.shape[1] < parts:
            continue
        counts = below.reshape(len(below), parts, -1).sum(axis=2)
        expected = np.maximum(total, 1)[:, None] / parts
        uneven |= ((counts - expected) ** 2 / expected).sum(axis=1) > limit
    found: Bools = uneven & (total >= least)
    return found
