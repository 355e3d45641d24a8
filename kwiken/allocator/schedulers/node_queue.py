"""Queue of nodes for schedulers that rank nodes once and take the best one for each replica."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.allocator.placement.sizing import Sizing
from kwiken.base.arrays import Floats, Ints

Key = tuple[float, ...]


def nodes_with_room(sizing: Sizing, size: int) -> Ints:
    """Nodes that have room for one more replica and that anti-affinity leaves, in order.

    Args:
        size: index of the size of the new replica.
    """
    request, ledger = sizing.request, sizing.ledger
    room = ledger.free_cores >= request.all_cores[size] - ROUNDING
    room &= ledger.free_memory_gb >= request.memory_gb[size] - ROUNDING
    room &= sizing.open_nodes()
    return np.flatnonzero(room)


def fill(
    sizing: Sizing,
    size: int,
    count: int,
    ranked: tuple[Ints, tuple[Floats, ...]],
    key_of: Callable[[int], Key | None],
) -> None:
    """Add replicas, each to the node with the least key, until there are enough or no node is left.

    A replica changes the state of its own node only, so the nodes are ranked once; where replicas may share a
    node, the node comes back with its new key.

    Args:
        sizing: replicas so far; others are added.
        size: index of the size of the new replicas.
        count: number of replicas that there should be.
        ranked: (m,) indices of nodes with room, in order, and their keys, each (m,); the first key counts
            most, and of equal keys the first node.
        key_of: function from a node that has just taken a replica to its new key; None where the node may
            take no other one.
    """
    nodes, keys = ranked
    anti_affinity = sizing.anti_affinity
    wanted = count - len(sizing.replicas)
    if wanted <= 0:  # a workload whose need has fallen may have more replicas than it reserves now
        return
    # Where a replica closes other nodes, more nodes of the ranking are read than replicas are wanted.
    places = first_places(keys, len(nodes) if anti_affinity.closes_other_nodes else wanted)
    rows = zip(*(key[places].tolist() for key in keys), nodes[places].tolist(), strict=True)
    waiting: list[Key] = list(rows)  # in order, which is a heap
    closed: set[int | None] = set()
    while waiting and wanted > 0:
        node = int(heapq.heappop(waiting)[-1])
        if (group := anti_affinity.group_of(node)) is not None and group in closed:
            continue
        closed.add(group)
        sizing.add(node, size)
        wanted -= 1
        if wanted and anti_affinity.shares_nodes and (key := key_of(node)) is not None:
            heapq.heappush(waiting, (*key, node))


def first_places(keys: tuple[Floats, ...], count: int) -> Ints:
    """Positions of the least entries in lexicographic order, without sorting the others.

    Args:
        keys: arrays (m,), one or more; the first one counts most, and of equal entries the first position.
        count: number of positions, 0 or more.

    Returns:
        (min(m, count),) positions, least first.
    """
    left = np.arange(len(keys[0]))
    taken: list[Ints] = []
    missing = min(count, len(left))
    for key in keys:
        if len(left) <= missing or not missing:
            break
        values = key[left]
        limit = np.partition(values, missing - 1)[missing - 1]
        below = left[values < limit]
        taken.append(below)
        missing -= len(below)
        left = left[values == limit]
    places = np.concatenate((*taken, left[:missing]))
    return np.asarray(places[np.lexsort((places, *(key[places] for key in reversed(keys))))])
