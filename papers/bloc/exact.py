"""Exact form of BLOC's packing, by integer programming: the fewest nodes that hold few data sets."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.storage.consolidation.packing import NOWHERE, DiskNodes, NodeLoads, PackObjects, PackRules

MAX_EXACT: Final = 12  # objects; the sets that fit on a node are all listed
LIMIT_S: Final = 20.0  # of the solver


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
    limit = objects.bandwidth_limit[chosen, kind].min() - rules.reserve_share * nodes.rated[0]
    if not objects.bandwidth[chosen].sum() < limit:
        return False
    place = np.full(len(objects), NOWHERE)
    place[chosen] = 0
    return len(chosen) == 1 or bool(
        NodeLoads(objects, nodes, scores, place).interference[0] < rules.most_interference
    )
