"""Interference of data sets on one disk: the loss of pairs, from the bandwidth of a mix of accesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.base.arrays import Floats, Ints


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


def pair_losses(mix: AccessMix) -> Floats:
    """(a, a) loss of the row's application beside the column's, as a share from 0 to 1.

    The loss is the larger of the bandwidth that is missing and the rise in latency, in an M/M/1 disk. A node
    that serves two applications has the harmonic mean of their bandwidths alone, by their shares.
    """
    bandwidth, alone = mix.bandwidth, mix.alone
    losses = np.empty((len(bandwidth), len(bandwidth)))
    for first in range(len(bandwidth)):
        both = bandwidth[first] + bandwidth
        rate = both / (bandwidth[first] / alone[first] + bandwidth / alone)
        missing = np.maximum(0.0, 1.0 - rate / both)
        by_itself = 1.0 / max(1.0 - bandwidth[first] / alone[first], 1e-9)
        beside = alone[first] / rate / np.maximum(1.0 - both / rate, 1e-9)
        losses[first] = np.minimum(1.0, np.maximum(missing, beside / by_itself - 1.0))
    return losses


def pair_scores(losses: Floats) -> Floats:
    """(a, a) score of each pair: the mean of the two losses.

    Args:
        losses: (a, a) loss of the row's application beside the column's, as a share.
    """
    return (losses + losses.T) / 2


def packing_order(scores: Floats, limit: Floats) -> Ints:
    """(a,) applications in the order of their first appearance among pairs by rising score.

    Args:
        scores: (a, a) score of each pair, a share.
        limit: (a,) bandwidth limit of each application; within a pair the smaller comes first.
    """
    count = len(scores)
    if count == 1:
        return np.zeros(1, dtype=np.int64)
    others = scores.copy()
    np.fill_diagonal(others, np.inf)
    one = np.arange(count)
    # Pairs of one score come in the order of their first application, then of their second: of an
    # application's pairs with the least score, the first is that with the lowest partner.
    partner = others.argmin(axis=1)
    first, second = np.minimum(one, partner), np.maximum(one, partner)
    swap = limit[second] < limit[first]
    later = (one == first) == swap
    return np.lexsort((later, second, first, others[one, partner])).astype(np.int64)
