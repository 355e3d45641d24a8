"""Interference of data sets on one disk: the loss of pairs, from the bandwidth of a mix of accesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints

NEVER_TOGETHER = 1.0  # score of a pair that one node cannot serve


@dataclass(frozen=True, eq=False)
class AccessMix:
    """How applications access a disk.

    Attributes:
        bandwidth: (a,) bandwidth that each application needs, in units of MB/s.
        random: (a,) share of its bytes that are accessed randomly, 0 to 1.
        sequential_rate: rated bandwidth of a sequential stream, a number of MB/s.
        random_rate: rated bandwidth of random accesses, a number of MB/s.
    """

    bandwidth: Floats
    random: Floats
    sequential_rate: float
    random_rate: float

    @property
    def alone(self) -> Floats:
        """(a,) bandwidth that each application could get alone, in units of MB/s."""
        return 1.0 / ((1 - self.random) / self.sequential_rate + self.random / self.random_rate)


def mixed_rate(mix: AccessMix, first: int, second: int) -> float:
    """Bandwidth of a node that serves two applications, MB/s: the harmonic mean by their shares."""
    share = mix.bandwidth[[first, second]]
    share = share / share.sum()
    return float(1.0 / (share / mix.alone[[first, second]]).sum())


def pair_losses(mix: AccessMix) -> Floats:
    """(a, a) loss of the row's application beside the column's, as a share from 0 to 1.

    The loss is the larger of the bandwidth that is missing and the rise in latency, in an M/M/1 disk.
    """
    count = len(mix.bandwidth)
    losses = np.zeros((count, count))
    for first in range(count):
        for second in range(count):
            both = mix.bandwidth[first] + mix.bandwidth[second]
            rate = mixed_rate(mix, first, second)
            missing = max(0.0, 1.0 - rate / both)
            alone = 1.0 / max(1.0 - mix.bandwidth[first] / mix.alone[first], 1e-9)
            beside = mix.alone[first] / rate / max(1.0 - both / rate, 1e-9)
            losses[first, second] = min(1.0, max(missing, beside / alone - 1.0, 0.0))
    return losses


def pair_scores(losses: Floats, kept: Bools | None = None) -> Floats:
    """(a, a) score of each pair: the mean of the two losses; 1 for pairs that were trimmed.

    Args:
        losses: (a, a) loss of the row's application beside the column's, as a share.
        kept: (a, a) pairs that one node can serve; None for all.
    """
    scores = (losses + losses.T) / 2
    return scores if kept is None else np.where(kept, scores, NEVER_TOGETHER)


def pairs_served(mix: AccessMix, capacity: Floats, most: float) -> Bools:
    """(a, a) pairs whose sums of bandwidth and of bytes one node can take.

    Bandwidth counts as what the more random of the two could get alone.

    Args:
        capacity: (a,) bytes of each application, in units of GB.
        most: capacity of the node, a number of GB.
    """
    able = np.minimum(mix.alone[:, None], mix.alone[None, :])
    fits: Bools = (mix.bandwidth[:, None] + mix.bandwidth[None, :] <= able) & (
        capacity[:, None] + capacity[None, :] <= most
    )
    return fits


def packing_order(scores: Floats, limit: Floats) -> Ints:
    """(a,) applications in the order of their first appearance among pairs by rising score.

    Args:
        scores: (a, a) score of each pair, a share.
        limit: (a,) bandwidth limit of each application; within a pair the smaller comes first.
    """
    count = len(scores)
    if count == 1:
        return np.zeros(1, dtype=np.int64)
    first, second = np.triu_indices(count, 1)
    by_score = np.argsort(scores[first, second], kind="stable")
    one, two = first[by_score], second[by_score]
    swap = limit[two] < limit[one]
    flat = np.stack((np.where(swap, two, one), np.where(swap, one, two)), axis=1).ravel()
    _, places = np.unique(flat, return_index=True)
    return flat[np.sort(places)]
