"""States: ranges of a volume's bytes, leaves of a 4-way tree that is refined where accesses are.

A range is split while its accesses are less even over its quarters, or over the quarters of those, than even
ones are in the mean, by chi-square: a state that hides uneven accesses puts them on the wrong side of any
border in it. A tree of equal depth is the hierarchy of the published model; its number of transitions is
`transitions_of_tree`.

Volumes whose I/Os differ no more than those of one volume do by chance, as the parts of a stripe, get one
tree: what is learned of their states then rests on the I/Os of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import chdtrc

from kwiken.base.arrays import Bools, Ints

BRANCHES: Final = 4
DEPTH: Final = 8  # of the deepest state: 65,536 ranges of a volume
MIN_ACCESSES: Final = 8  # in a range that is split
MAX_SHARE_LEAVES: Final = 512  # a range that is split holds at least this part of the accesses
EVEN_4, EVEN_16 = (
    3.0,
    15.0,
)  # chi-square with 3 and 15 degrees of freedom: what even accesses have in the mean
ALIKE: Final = 0.01  # chance that volumes of one law differ more than those that are taken as alike
MIN_ALIKE: Final = 100  # I/Os of a volume below which a difference would not show
MAX_ALIKE: Final = 128  # volumes, the busiest, that are compared
MAX_COMPARED: Final = 1 << 14  # I/Os of a volume, and of a group, evenly spaced, that are compared
PARTS: Final = 16  # of the accesses of two volumes, by their place, that are compared
FEW_PARTS: Final = 4  # of the accesses, between which the steps from one to the next are counted
MIN_EXPECTED: Final = 5.0  # I/Os of a kind, below which chi-square is no measure (Cochran 1954)


def transitions_of_tree(levels: int) -> int:
    """Number of transitions of a hierarchical diagram, pairs of states with self loops.

    Args:
        levels: depth of the tree, 1 or more.
    """
    coarser = sum(12 * BRANCHES ** (level - 1) for level in range(1, levels))
    return int(16 * BRANCHES ** (levels - 1) + coarser)


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


def alike_volumes(volume: Ints, start: Ints, kind: Ints, fit: Bools) -> Ints:
    """(v,) number of each volume's group: volumes whose I/Os differ by no more than chance have one number.

    Compared are the places of accesses, their kinds, and how often an access is near the one before it. The
    busiest volumes come first; each joins the group from which it differs least, or begins a new one. Groups
    are numbered in the order of their first volumes.

    Args:
        volume: (n,) volume of each I/O.
        start: (n,) first byte of each I/O.
        kind: (n,) kind of each I/O, by its number.
        fit: (v,) whether a volume may share a group.
    """
    counts = np.bincount(volume, minlength=len(fit))
    order = np.argsort(-counts, kind="stable")
    asked = order[fit[order] & (counts[order] >= MIN_ALIKE)][:MAX_ALIKE]
    number = np.arange(len(fit))
    groups: list[tuple[int, _Accesses]] = []
    for each in asked.tolist():
        own = _accesses(start[volume == each], kind[volume == each])
        chances = [_chance_alike(known, own) for _, known in groups]
        best = int(np.argmax(chances)) if chances else -1
        if best < 0 or chances[best] < ALIKE:
            groups.append((each, own))
            continue
        lead, known = groups[best]
        groups[best] = (lead, known.beside(own))
        number[each] = lead
    least = np.arange(len(fit))
    np.minimum.at(least, number, np.arange(len(fit)))
    found: Ints = np.unique(least[number], return_inverse=True)[1].astype(np.int64)
    return found


@dataclass(frozen=True, eq=False)
class _Accesses:
    """I/Os of some volumes: first bytes, kinds, and first bytes of the I/Os before, -1 for none."""

    start: Ints
    kind: Ints
    before: Ints

    def beside(self, other: _Accesses) -> _Accesses:
        """Both, unless these are enough to compare with."""
        if len(self.start) >= MAX_COMPARED:
            return self
        return _Accesses(
            np.concatenate((self.start, other.start)),
            np.concatenate((self.kind, other.kind)),
            np.concatenate((self.before, other.before)),
        )

    def stays(self, edges: Ints) -> Ints:
        """Numbers of I/Os in another part than the one before, and in the same part."""
        known = self.before >= 0
        return np.bincount(_part(self.start[known], edges) == _part(self.before[known], edges), minlength=2)


def _accesses(start: Ints, kind: Ints) -> _Accesses:
    before = np.concatenate(([-1], start[:-1]))
    count = min(len(start), MAX_COMPARED)
    chosen = np.arange(count) * len(start) // count
    return _Accesses(start[chosen], kind[chosen], before[chosen])


def _part(start: Ints, edges: Ints) -> Ints:
    """(n,) part of each byte, by the first bytes of all parts but the first."""
    return np.searchsorted(edges, start, side="right")


def _chance_alike(one: _Accesses, other: _Accesses) -> float:
    """Chance that I/Os of one law differ more than these, by chi-square."""
    ordered = np.sort(np.concatenate((one.start, other.start)))
    edges = np.unique(ordered[len(ordered) * np.arange(1, PARTS) // PARTS])
    kinds = int(max(one.kind.max(), other.kind.max())) + 1
    tables = [
        [np.bincount(_part(each.start, edges), minlength=PARTS) for each in (one, other)],
        [np.bincount(each.kind, minlength=kinds) for each in (one, other)],
        [each.stays(edges) for each in (one, other)],
    ]
    found = np.sum([_chi_square(*table) for table in tables], axis=0)
    return float(chdtrc(found[1], found[0])) if found[1] > 0 else 1.0


def _chi_square(one: Ints, other: Ints) -> tuple[float, int]:
    """Chi-square of the counts of two, and its degrees of freedom; kinds that are rare count as one."""
    counts = np.stack((one, other)).astype(np.float64)
    rare = counts.sum(axis=0) * counts.sum(axis=1).min() / counts.sum() < MIN_EXPECTED
    counts = np.column_stack((counts[:, ~rare], counts[:, rare].sum(axis=1)))
    counts = counts[:, counts.sum(axis=0) > 0]
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    return float(((counts - expected) ** 2 / expected).sum()), counts.shape[1] - 1


def is_free(start: Ints, after: Ints) -> bool:
    """Whether the places of accesses depend on those before by no more than chance.

    Args:
        start: (n,) first byte of each access.
        after: (m,) positions of the accesses that have one before them, right before.
    """
    ordered = np.sort(start)
    chances = []
    for parts, whole in ((FEW_PARTS, True), (PARTS, False)):
        edges = np.unique(ordered[len(ordered) * np.arange(1, parts) // parts])
        part = _part(start, edges)
        steps = np.bincount(part[after - 1] * parts + part[after], minlength=parts**2)
        counts = steps.reshape(parts, parts).astype(np.float64)
        expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / max(len(after), 1)
        if whole:
            known = expected > 0
            found = float(((counts - expected)[known] ** 2 / expected[known]).sum())
            chances.append(chdtrc((parts - 1) ** 2, found))
            continue
        # Steps within a part: many parts have too few of each kind of step.
        stays, likely = float(np.trace(counts)), float(np.trace(expected))
        spread = likely * (1 - likely / max(len(after), 1))
        chances.append(chdtrc(1, (stays - likely) ** 2 / spread) if spread > 0 else 1.0)
    return bool(min(chances) >= ALIKE)
