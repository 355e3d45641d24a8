"""LRU stack distances of block accesses, and the hit ratios of caches of every size at once.

Mattson et al. 1970: a cache of `c` blocks under LRU hits an access if fewer than `c` other blocks were
touched since the last access to its block. Distances are counted by merging, level by level, in O(n log² n).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.storage.trace.block_trace import BlockTrace

MAX_ACCESSES: Final = 64_000_000  # to blocks, of one trace
BLOCK: Final = 4096  # bytes; the granule is doubled where a trace has more accesses than MAX_ACCESSES
COLD: Final = -1  # distance of the first access to a block


def block_accesses(trace: BlockTrace) -> tuple[Ints, Ints, int]:
    """Accesses of a trace to blocks.

    Returns:
        (m,) number of each access's block, (m,) index of its I/O, and the bytes of a block.
    """
    block = BLOCK
    while True:
        first, last = trace.start // block, (trace.end - 1) // block
        counts = last - first + 1
        if int(counts.sum()) <= MAX_ACCESSES:
            break
        block *= 2
    owner = np.repeat(np.arange(len(trace)), counts)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    blocks = first[owner] + within
    span = int(last.max()) + 1
    return (
        np.unique(trace.volume[owner] * span + blocks, return_inverse=True)[1].astype(np.int64),
        owner,
        block,
    )


def last_accesses(blocks: Ints) -> Ints:
    """(m,) index of the access before each one to the same block; -1 for none."""
    order = np.argsort(blocks, kind="stable")
    last = np.full(len(blocks), -1, dtype=np.int64)
    same = blocks[order[1:]] == blocks[order[:-1]]
    last[order[1:][same]] = order[:-1][same]
    return last


def stack_distances(blocks: Ints) -> Ints:
    """(m,) number of other blocks since the last access to each one's block; -1 at a block's first access."""
    last = last_accesses(blocks)
    again = np.flatnonzero(last >= 0)
    distance = np.full(len(blocks), COLD, dtype=np.int64)
    # Of the accesses before k, those whose own last access is not after last[k]: all up to last[k], and each
    # block that was touched since for the first time since.
    cold_before = np.cumsum(last < 0)[again]
    earlier = _earlier_below(last[again])
    distance[again] = cold_before + earlier - last[again] - 1
    return distance


def _earlier_below(values: Ints) -> Ints:
    """(n,) for each value, how many earlier ones are smaller; all values differ. Bottom-up merging."""
    n = len(values)
    count = np.zeros(n, dtype=np.int64)
    if n < 2:  # noqa: PLR2004 - one value has none before it
        return count
    ranks = np.empty(n, dtype=np.int64)
    ranks[np.argsort(values)] = np.arange(n)
    places = np.argsort(ranks)  # positions by value: a stable sort by group keeps the order of values
    width = 1
    while width < n:
        # Sort by block of 2·width and then by value; count left halves before each right element.
        group = places // (2 * width)
        order = places[np.argsort(group, kind="stable")]
        left = (order // width) % 2 == 0
        before = np.cumsum(left)
        groups = order // (2 * width)
        starts = np.searchsorted(groups, np.arange(int(groups[-1]) + 1))
        base = np.concatenate(([0], before))[starts]
        right = ~left
        count[order[right]] += before[right] - base[groups[right]]
        width *= 2
    return count


def hit_ratios(blocks: Ints, shares: Floats) -> Floats:
    """(k,) share of accesses that an LRU cache serves, by its size as a share of the touched blocks.

    Args:
        blocks: (m,) number of each access's block.
        shares: (k,) sizes of caches, each a share of the distinct blocks, above 0 to 1.
    """
    if not len(blocks):
        return np.zeros(len(shares))
    distance = stack_distances(blocks)
    sizes = np.maximum(1, np.round(np.asarray(shares) * (int(blocks.max()) + 1))).astype(np.int64)
    ordered = np.sort(distance[distance >= 0])
    return np.searchsorted(ordered, sizes, side="left") / len(blocks)
