"""Paragon's statistical scheduler: the best of a few random nodes (section 3.8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.baselines import reservation
from kwiken.allocator.schedulers.node_queue import nodes_with_room
from kwiken.base.arrays import Floats, Ints
from papers.worlds.schedulers.paragon import differences, with_room


@dataclass(frozen=True)
class StatisticalScheduler:
    """Best of a few random nodes for each replica of a reservation (Paragon section 3.8).

    If the quality of a random node is uniform, the chosen one is among the best tenth of the nodes but for
    one placement in `0.9 ** -candidates`, however large the cluster is. The source draws candidates by
    hashing scores, so that a draw is repeatable; a seeded generator is that too, and uniform.

    Attributes:
        candidates: number of nodes that are examined for each replica, 1 or more.
    """

    rng: np.random.Generator
    candidates: int = 64
    name: str = "paragon-statistical"

    def place(self, sizing: Sizing) -> None:
        """Take the best of the candidates that have room; draw again, and at last look at all nodes."""
        wanted, free = reservation(sizing.request), sizing.open_nodes()
        while len(sizing.replicas) < wanted.count:
            drawn = np.unique(self.rng.integers(len(free), size=self.candidates))
            nodes = with_room(sizing, wanted.size, drawn[free[drawn]])
            if not nodes.size and not (nodes := nodes_with_room(sizing, wanted.size)).size:
                return
            best = int(nodes[np.argmax(colocation_quality(sizing, nodes))])
            sizing.add(best, wanted.size)
            sizing.anti_affinity.close(best, free)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the whole reservation was placed."""
        return len(sizing.replicas) >= reservation(sizing.request).count


def colocation_quality(sizing: Sizing, nodes: Ints) -> Floats:
    """Quality of a node for a workload: how tight the fit is, and how small a violation.

    The formula that the source prints gives a perfect fit 0, and ranks large violations above small ones.
    Here it is 1 less the mean distance of slack and caused pressure where nothing is violated, else below 0.

    Args:
        nodes: (m,) indices of nodes.

    Returns:
        (m,) quality, from -1 to 1, a share.
    """
    spare, margin = differences(sizing, nodes)
    violation = np.maximum(-spare, -margin).max(axis=0)
    distance = (np.abs(spare) + np.abs(margin)).mean(axis=0) / 2
    return np.asarray(np.where(violation > ROUNDING, -(violation + distance) / 2, 1.0 - distance))
