"""The fewest nodes that hold data sets: exact by integer programming for few objects, a bound for many."""

from __future__ import annotations

import itertools
import math
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.storage.consolidation.packing import NOWHERE, DiskNodes, NodeLoads, PackObjects, PackRules

MAX_EXACT: Final = 12  # objects; the sets that fit on a node are all listed
LIMIT_S: Final = 20.0  # of the solver
MAX_PAIRS: Final = 5000  # objects whose pairs are looked at for a bound
MOST_BESIDE: Final = 200  # objects of one node that the bound by interference tells apart


def fewest_nodes(objects: PackObjects, nodes: DiskNodes, scores: Floats, rules: PackRules) -> int:
    """Fewest nodes of the first node's class that hold all objects: a set partition over the sets that fit.

    Args:
        scores: (a, a) score of each pair of applications, a share.

    Raises:
        InputError: more objects than can be listed, or one that fits alone on no node.
    """
    if len(objects) > MAX_EXACT:
        raise InputError(
            f"{len(objects)} objects; the exact packing takes {MAX_EXACT} at most", where="exact"
        )
    from scipy.optimize import Bounds, LinearConstraint, milp

    sets: list[tuple[int, ...]] = []
    level: list[tuple[int, ...]] = [()] if len(objects) else []
    while level:
        # All conditions are hereditary: a set fits only if it fits without its last member.
        grown: list[tuple[int, ...]] = [
            (*held, which)
            for held in level
            for which in range(held[-1] + 1 if held else 0, len(objects))
            if _fits(objects, nodes, scores, rules, (*held, which))
        ]
        sets += grown
        level = grown
    covered = np.zeros((len(objects), len(sets)))
    for column, members in enumerate(sets):
        covered[list(members), column] = 1.0
    if not len(sets) or not (covered.sum(axis=1) > 0).all():
        raise InputError("an object fits alone on no node", where="exact")
    solved = milp(
        np.ones(len(sets)),
        integrality=np.ones(len(sets)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(covered, 1, 1),
        options={"time_limit": LIMIT_S},
    )
    if solved.x is None:
        raise InputError("the solver found no packing in time", where="exact")
    return round(float(solved.fun))


def _fits(
    objects: PackObjects, nodes: DiskNodes, scores: Floats, rules: PackRules, members: tuple[int, ...]
) -> bool:
    chosen = list(members)
    kind = int(nodes.class_of[0])
    if any(objects.datum[one] == objects.datum[two] for one, two in itertools.combinations(chosen, 2)):
        return False
    if not objects.size[chosen].sum() < min(objects.size_limit[chosen, kind].min(), nodes.capacity[0]):
        return False
    if not rules.limits:
        return True
    limit = objects.bandwidth_limit[chosen, kind].min() - rules.reserve_share * nodes.rated[0]
    if not objects.bandwidth[chosen].sum() < limit:
        return False
    place = np.full(len(objects), NOWHERE)
    place[chosen] = 0
    return len(chosen) == 1 or bool(
        NodeLoads(objects, nodes, scores, place).interference[0] < rules.most_interference
    )


def least_nodes(objects: PackObjects, nodes: DiskNodes, scores: Floats, rules: PackRules) -> int:
    """Number of nodes that no packing can go below: bytes, bandwidth, interference, and replicas apart.

    Args:
        scores: (a, a) score of each pair of applications, a share.
    """
    if not len(objects):
        return 0
    by_size = math.ceil(float(objects.size.sum() / nodes.capacity.max()) - 1e-9)
    apart = int(np.bincount(objects.datum).max())
    if not rules.limits:
        return max(1, by_size, apart)
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
    most = min(count - 1, MOST_BESIDE)
    lowest = np.empty((count, most))
    for which in range(count):
        beside = scores[objects.app[which], objects.app] * objects.load * objects.load[which]
        beside[which] = np.inf
        lowest[which] = np.sort(np.partition(beside, most - 1)[:most])
    others = np.arange(most)  # objects beside the first one of each number
    least = np.cumsum(lowest, axis=1) + lowest[:, 0].min() * (others + 1) * others / 2
    beside_it = (least < rules.most_interference).sum(axis=1)
    whole = beside_it == MOST_BESIDE  # no bound is known
    return math.ceil(float(np.where(whole, 0.0, 1.0 / (1 + beside_it)).sum()) - 1e-9)
