"""Bound on the nodes that data sets need: by bytes, bandwidth and interference."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.storage.consolidation.packing import DiskNodes, PackObjects, PackRules

MAX_PAIRS: Final = 5000  # objects whose pairs are looked at for a bound
MAX_BESIDE: Final = 200  # objects of one node that the bound by interference tells apart


def least_nodes(objects: PackObjects, nodes: DiskNodes, scores: Floats, rules: PackRules) -> int:
    """Number of nodes that no packing can go below: bytes, bandwidth, interference, and replicas apart.

    Args:
        scores: (a, a) score of each pair of applications, a share.
    """
    if not len(objects):
        return 0
    by_size = math.ceil(float(objects.size.sum() / nodes.capacity.max()) - 1e-9)
    apart = int(np.bincount(objects.datum).max())
    room = objects.bandwidth_limit[:, nodes.class_of] - rules.reserve_share * nodes.rated
    # An object takes at least its bandwidth over its own limit of a node, whoever shares the node.
    by_bandwidth = math.ceil(float((objects.bandwidth / np.maximum(room.max(axis=1), 1e-9)).sum()) - 1e-9)
    by_pairs = _least_by_pairs(objects, scores, rules)
    return max(1, by_size, apart, min(by_bandwidth, len(objects)), by_pairs)


def _least_by_pairs(objects: PackObjects, scores: Floats, rules: PackRules) -> int:
    """Nodes that interference asks for: an object takes at least one part in the most that can stand with it.

    Of k objects with one of them given, its pairs score at least the sum of its k - 1 lowest, and all other
    pairs at least as much as the lowest pair of all. 1 where there are too many objects.
    """
    count = len(objects)
    if not 1 < count <= MAX_PAIRS:
        return 1
    most = min(count - 1, MAX_BESIDE)
    lowest = np.empty((count, most))
    for which in range(count):
        beside = scores[objects.app[which], objects.app] * objects.load * objects.load[which]
        beside[which] = np.inf
        lowest[which] = np.sort(np.partition(beside, most - 1)[:most])
    others = np.arange(most)  # objects beside the first one of each number
    least = np.cumsum(lowest, axis=1) + lowest[:, 0].min() * (others + 1) * others / 2
    beside_it = (least < rules.most_interference).sum(axis=1)
    whole = beside_it == MAX_BESIDE  # no bound is known
    return math.ceil(float(np.where(whole, 0.0, 1.0 / (1 + beside_it)).sum()) - 1e-9)
