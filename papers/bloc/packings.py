"""Packings of drawn data sets beside the exact one where they are few, and a bound where they are many."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.storage.consolidation.bound import least_nodes
from kwiken.storage.consolidation.interference import AccessMix, packing_order, pair_losses, pair_scores
from kwiken.storage.consolidation.packing import (
    NOWHERE,
    DiskNodes,
    NodeLoads,
    PackedData,
    PackObjects,
    PackRules,
    consolidate,
    placing_order,
)
from kwiken.storage.consolidation.search import searched
from papers.bloc.exact import fewest_nodes

MANY: Final = 1000  # data sets
MANY_NODES: Final = 600
RATED, CAPACITY = 400.0, 1200.0  # MB/s and GB of a node


def next_fit(
    objects: PackObjects, nodes: DiskNodes, scores: Floats, rules: PackRules, order: Ints
) -> PackedData:
    """The published packing, which goes through nodes without turning back.

    Args:
        scores: (a, a) score of each pair of applications, a share.
        order: (n,) objects in the order of placing.
    """
    loads = NodeLoads(objects, nodes, scores, np.full(len(objects), NOWHERE))
    oversized, unplaced, at = list[int](), list[int](), 0
    for which in order.tolist():
        ahead = np.flatnonzero(loads.fits(which, rules)[at:])
        if len(ahead):
            at += int(ahead[0])
            loads.put(which, at)
            continue
        at += int(np.argmax(loads.count[at:] == 0))
        roomy = (loads.count == 0) & ~loads.taken(which, rules) & (objects.size[which] < nodes.capacity)
        if roomy.any():
            loads.put(which, int(np.argmax(roomy)))
        (oversized if roomy.any() else unplaced).append(which)
    return PackedData(loads.place, tuple(oversized), tuple(unplaced))


def beside_exact(seed: int) -> dict[str, float]:
    """Nodes by next, first and best fit and by search beside the exact packing, on 8 to 12 drawn objects."""
    rng = np.random.default_rng([seed, 13])
    totals = dict.fromkeys(("exact", "next", "first", "best", "search"), 0.0)
    draws = 6
    for draw in range(draws):
        count = int(rng.integers(8, 13))
        limit = rng.uniform(25, 80, count)
        bandwidth = limit * rng.uniform(0.1, 0.6, count)
        objects = PackObjects(
            tuple(map(str, range(count))),
            bandwidth,
            rng.uniform(50, 450, count),
            limit[:, None],
            np.full((count, 1), 1200.0),
            np.arange(count),
            np.ones(count),
            np.arange(count),
        )
        nodes = DiskNodes(
            tuple(map(str, range(count))),
            np.zeros(count, dtype=np.int64),
            np.full(count, 1200.0),
            np.full(count, 100.0),
            np.arange(count),
        )
        mix = AccessMix(bandwidth, rng.uniform(0.3, 0.9, count), 400.0, 200.0)
        scores = pair_scores(pair_losses(mix)) / 3
        order = packing_order(scores, limit)
        totals["exact"] += fewest_nodes(objects, nodes, scores, PackRules()) / draws
        totals["next"] += next_fit(objects, nodes, scores, PackRules(), order).nodes_used / draws
        for rules in (PackRules(), PackRules(fit="best")):
            found = consolidate(objects, nodes, scores, rules, order=order)
            totals[rules.fit] += found.nodes_used / draws
        searching = searched(objects, nodes, scores, PackRules(), np.random.default_rng([seed, draw]))
        totals["search"] += searching.nodes_used / draws
    return totals


def many_sets(seed: int) -> dict[str, float]:
    """Nodes for many data sets by first fit, best fit and search, and the number that none can go below."""
    rng = np.random.default_rng([seed, 17])
    size, bandwidth = rng.uniform(2.0, 60.0, MANY), rng.uniform(0.2, 3.0, MANY)
    mix = AccessMix(bandwidth, rng.uniform(0.3, 0.95, MANY), RATED, 0.3 * RATED)
    scores = pair_scores(pair_losses(mix))
    owner = np.repeat(np.arange(MANY), np.where(np.arange(MANY) % 5 == 0, 2, 1))
    objects = PackObjects(
        names=tuple(map(str, owner)),
        bandwidth=bandwidth[owner],
        size=size[owner],
        bandwidth_limit=np.full((len(owner), 1), 0.3 * RATED),
        size_limit=np.full((len(owner), 1), CAPACITY),
        app=owner,
        load=np.ones(len(owner)),
        datum=owner,
    )
    nodes = DiskNodes(
        names=tuple(map(str, range(MANY_NODES))),
        class_of=np.zeros(MANY_NODES, dtype=np.int64),
        capacity=np.full(MANY_NODES, CAPACITY),
        rated=np.full(MANY_NODES, RATED),
        zone=np.arange(MANY_NODES) % 3,
    )
    order = placing_order(objects, scores)
    found: dict[str, float] = {
        rules.fit: float(consolidate(objects, nodes, scores, rules, order=order).nodes_used)
        for rules in (PackRules(), PackRules(fit="best"))
    }
    found["search"] = float(searched(objects, nodes, scores, PackRules(), rng).nodes_used)
    return found | {"bound": float(least_nodes(objects, nodes, scores, PackRules()))}
