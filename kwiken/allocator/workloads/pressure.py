"""Pressure of a replica on a node, and what it tolerates there, by its size, its load and the node's class.

Scores are measured on one replica of the reference size, on the reference class, as shares of what a node of
that class has. Four rules carry them over:

1. Use presses, not a reservation: a replica that does n times the work presses n times as much.
2. A node of another class has another amount of the resource. Where both amounts are stated in units
   (`NodeClass.has`), the same use is a smaller share of more; processors and caches of a core are counted in
   cores. Bandwidths are used by work, so that a class which is quicker by a factor presses by it too.
3. Where an amount is not stated, the share is that of the reference class.
4. What a replica uses itself is not there for its neighbours: it tolerates less the more it uses.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.allocator.workloads.sources import PRIVATE_SOURCES, SOURCES
from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster, NodeClass

# Sources that are used by work done, in GB/s; of all others a replica holds what its busy threads need.
FLOWS: Final = frozenset({"l3-bandwidth", "memory-bandwidth", "disk", "network"})
MIN_TOLERATED: Final = 1e-9  # keeps the ratio of pressure to tolerance finite


def pressure_by_size(
    caused: Floats, work: Floats, class_factor: Floats, cluster: Cluster, reference_class: str
) -> Floats:
    """Pressure of one replica.

    Args:
        caused: (s,) pressure of a replica of the reference size on the reference class, a share, over
            `SOURCES`.
        work: (k,) work per second that a replica of each size does, as a factor of that one, class by class.
        class_factor: (c,) performance by class of the cluster, as a factor of the reference class.
        reference_class: name of the reference class; empty where a document of before does not state it.

    Returns:
        (s, k, c) shares of what a node of each class has.

    Raises:
        InputError: names a class that states an amount of no known source.
    """
    by_class = np.ones((len(SOURCES), len(cluster.classes)))
    reference = next((one for one in cluster.classes if one.name == reference_class), None)
    amounts = [_amount(reference, source) for source in SOURCES]
    for number, one in enumerate(cluster.classes):
        if unknown := set(one.has) - set(SOURCES):
            raise InputError(
                f"has: no source {min(unknown)!r}; known: {', '.join(SOURCES)}", where=f"class {one.name!r}"
            )
        for row, (source, there) in enumerate(zip(SOURCES, amounts, strict=True)):
            here = _amount(one, source)
            if there is not None and here is not None:
                quicker = float(class_factor[number]) if source in FLOWS else 1.0
                by_class[row, number] = quicker * there / here
    return np.asarray(caused[:, None, None] * work[None, :, None] * by_class[:, None, :])


def _amount(node_class: NodeClass | None, source: str) -> float | None:
    """Amount of a shared resource that a node has, in its unit; None where it is not known."""
    if node_class is None:
        return None
    return node_class.has.get(source, node_class.cores if source in PRIVATE_SOURCES else None)


def tolerance_by_size(tolerated: Floats, caused: Floats, pressure: Floats) -> Floats:
    """Pressure of others that costs a replica 5% of its performance.

    Args:
        tolerated: (s,) that of a replica of the reference size on the reference class, a share.
        caused: (s,) pressure of that replica, a share.
        pressure: (s, k, c) pressure of replicas by size and class, shares.

    Returns:
        (s, k, c) shares above 0 of what a node of each class has; at most those of the reference.
    """
    room = np.maximum(1.0 - caused, MIN_TOLERATED)[:, None, None]
    left = np.where(pressure <= caused[:, None, None], 1.0, np.clip((1.0 - pressure) / room, 0.0, 1.0))
    return np.maximum(tolerated[:, None, None] * left, MIN_TOLERATED)
