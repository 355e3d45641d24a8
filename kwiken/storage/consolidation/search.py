"""Search for a packing on fewer nodes: nodes are filled one after another, then a few at a time anew.

Interference of pairs bounds most nodes. The published order takes the calmest pairs first and is left with
data that nobody can stand beside. Here each node begins with the hardest data that is left, and takes what
adds the least interference for its own hardness until nothing fits. Then a few nodes are emptied at a time
and filled anew. Sums are kept up to date by node, so that a step costs a pass over nodes or over data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.storage.consolidation.packing import (
    NOWHERE,
    DiskNodes,
    NodeLoads,
    PackedData,
    PackObjects,
    PackRules,
    consolidate,
    place_objects,
    placing_order,
)

ROUNDS: Final = 500  # in which nodes are emptied and filled anew
EMPTIED: Final = 4  # nodes of a round
MAX_MOVED: Final = 64  # objects of a round
JITTER: Final = 0.3  # of the hardness of an object, so that rounds differ


def searched(
    objects: PackObjects, nodes: DiskNodes, scores: Floats, rules: PackRules, rng: np.random.Generator
) -> PackedData:
    """Packing on few nodes, never on more than the published order needs by first or best fit.

    Args:
        scores: (a, a) score of each pair of applications, a share.
        rules: rules of the packing; the fit does not count.
    """
    hard = _hardness(objects, nodes, scores, rules)
    published = placing_order(objects, scores)
    found = [
        consolidate(objects, nodes, scores, replace(rules, fit="first"), order=published),
        consolidate(objects, nodes, scores, replace(rules, fit="best"), order=published),
        _node_by_node(objects, nodes, scores, rules, hard),
    ]
    best = min(found, key=lambda each: (len(each.unplaced), len(each.oversized), each.nodes_used))
    loads = NodeLoads(objects, nodes, scores, best.place.copy())
    held = np.zeros(len(objects), dtype=bool)
    held[list(best.oversized)] = True
    fill = _fill(loads, rules)
    for _ in range(ROUNDS):
        used = np.flatnonzero(loads.count)
        if len(used) < 2:  # noqa: PLR2004 - one node cannot be emptied into others
            break
        fill = _refilled(loads, rules, hard, held, fill, used, rng)
    return PackedData(loads.place, best.oversized, best.unplaced)


def _node_by_node(
    objects: PackObjects, nodes: DiskNodes, scores: Floats, rules: PackRules, hard: Floats
) -> PackedData:
    """Packing that fills one node after another; what no node took is placed last."""
    loads = NodeLoads(objects, nodes, scores, np.full(len(objects), NOWHERE))
    by_need = np.argsort(-hard, kind="stable")
    for node in range(len(nodes)):
        left = by_need[loads.place[by_need] == NOWHERE]
        if not len(left):
            break
        _fill_node(loads, rules, hard, node, left)
    return place_objects(loads, replace(rules, fit="first"), by_need, np.arange(len(nodes)))


def _fill_node(loads: NodeLoads, rules: PackRules, hard: Floats, node: int, left: Ints) -> None:
    """Fill a node: the first object that fits, then those with the least interference for their hardness."""
    objects = loads.objects
    while len(left := left[loads.fits_on(node, left, rules)]):
        at = 0
        if loads.count[node]:
            added = loads.pressure[node, objects.app[left]] * objects.load[left]
            at = int(np.argmin(added / np.maximum(hard[left], 1e-12) ** 2))
        loads.put(int(left[at]), node)
        left = np.delete(left, at)


def _hardness(objects: PackObjects, nodes: DiskNodes, scores: Floats, rules: PackRules) -> Floats:
    """(n,) share of a node that each object takes: of bytes, of bandwidth, and of interference beside any."""
    kinds = nodes.class_of
    size = objects.size / np.minimum(objects.size_limit[:, kinds], nodes.capacity).max(axis=1)
    room = objects.bandwidth_limit[:, kinds] - rules.reserve_share * nodes.rated
    band = objects.bandwidth / np.maximum(room.max(axis=1), 1e-9)
    beside = scores.mean(axis=1)[objects.app] * objects.load * float(objects.load.mean())
    hard: Floats = np.maximum(np.maximum(size, band), beside / rules.most_interference)
    return hard


def _fill(loads: NodeLoads, rules: PackRules) -> Floats:
    """(m,) share of each node that is taken: of its bytes, its bandwidth, or its interference."""
    fill: Floats = np.maximum(
        loads.size / loads.size_limit,
        np.maximum(
            loads.bandwidth / np.maximum(loads.bandwidth_limit, 1e-9),
            loads.interference / rules.most_interference,
        ),
    )
    return fill


def _refilled(
    loads: NodeLoads,
    rules: PackRules,
    hard: Floats,
    held: np.ndarray[tuple[int], np.dtype[np.bool_]],
    fill: Floats,
    used: Ints,
    rng: np.random.Generator,
) -> Floats:
    """Empty a few nodes and place their objects anew; undone unless fewer nodes, or fuller ones, are used.

    Returns:
        (m,) share of each node that is taken afterwards.
    """
    chosen = rng.choice(used, min(EMPTIED, len(used)), replace=False)
    moved = np.flatnonzero(np.isin(loads.place, chosen))
    if len(moved) > MAX_MOVED or held[moved].any():
        return fill
    home = loads.place[moved]
    for node in chosen.tolist():
        loads.take(node, moved[home == node])
    # The emptiest of them is filled last, so that it may stay empty.
    last = int(chosen[np.argmin(fill[chosen])])
    shaken = hard * (1 + JITTER * rng.random(len(hard)))
    left = moved[np.argsort(-shaken[moved])]
    for node in rng.permutation(chosen[chosen != last]).tolist():
        _fill_node(loads, rules, shaken, node, left)
        left = left[loads.place[left] == NOWHERE]
    _put_calmly(loads, rules, left, used[used != last])
    _fill_node(loads, rules, shaken, last, left[loads.place[left] == NOWHERE])
    after = _fill(loads, rules)
    count = int((loads.count > 0).sum())
    fuller = count < len(used) or float((after**2).sum()) >= float((fill**2).sum())
    if (loads.place[moved] != NOWHERE).all() and count <= len(used) and fuller:
        return after
    for node in np.unique(loads.place[moved]).tolist():
        if node != NOWHERE:
            loads.take(node, moved[loads.place[moved] == node])
    for which, node in zip(moved.tolist(), home.tolist(), strict=True):
        loads.put(which, node)
    return _fill(loads, rules)


def _put_calmly(loads: NodeLoads, rules: PackRules, left: Ints, tried: Ints) -> None:
    """Place objects on the nodes where each adds the least interference; those that fit nowhere stay."""
    for which in left.tolist():
        fits = tried[loads.fits(which, rules)[tried]]
        if len(fits):
            loads.put(which, int(fits[np.argmin(loads.added_interference(which)[fits])]))
