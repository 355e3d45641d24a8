"""Quality that a job needs and that a node offers, by how few nodes meet the targets of past jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING, NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.base.arrays import Bools
from kwiken.model.nodes.nodes import Cluster

WHOLE: Final = 100.0


# The published sum of pressures does not say whether a node's platform suits a job, and two jobs of one sum
# may need different resources. Here both sides are counted on one scale. A job that finds its target on few
# nodes needs a high quality. A node has the quality of the empty nodes that meet as many targets of past
# jobs as the node meets now, beside its residents.
class SuitableQuality:
    """Qualities by what arrived before.

    Args:
        past: requests of past jobs, one or more; each is taken in its typical size.
        share: share of its best performance from which a job's target is met, above 0 and at most 1.
    """

    def __init__(self, past: Sequence[PlacementRequest], cluster: Cluster, share: float) -> None:
        self._share, self._cluster = share, cluster
        self._caused = np.array([one.all_pressure[:, one.typical_size] for one in past])
        self._tolerated = np.array([one.tolerance[:, one.typical_size] for one in past])
        self._classes = np.array([self.classes(one) for one in past])
        met = self._classes.mean(axis=0)[cluster.class_of]
        self._met = np.sort(met)

    def classes(self, request: PlacementRequest, share: float | None = None) -> Bools:
        """(c,) classes of node whose predicted performance meets a job's target, without neighbours.

        Args:
            share: share of its best performance that the job still needs; None for that of all jobs.
        """
        needed = self._share if share is None else share
        cluster, size = self._cluster, request.typical_size
        rates = request.rate[size]
        holds = np.array(
            [
                one.cores >= request.all_cores[size] - ROUNDING
                and one.memory_gb >= request.memory_gb[size] - ROUNDING
                for one in cluster.classes
            ]
        )
        best = rates[holds].max() if holds.any() else 0.0
        return np.asarray(holds & (rates >= needed * best - ROUNDING))

    def of_job(self, request: PlacementRequest) -> float:
        """Quality of node that a job needs, from 0 to 100: the share of nodes that miss its target."""
        return WHOLE * float(1.0 - self.classes(request)[self._cluster.class_of].mean())

    def of_node(self, ledger: NodeLedger, node: int) -> float:
        """Quality that a node offers to one more job, from 0 to 100."""
        pressure, slack = np.minimum(ledger.pressure[:, node], 1.0), ledger.slack[:, node]
        at = int(ledger.cluster.class_of[node])
        suits = self._classes[:, at] & np.all(self._tolerated[:, :, at] + ROUNDING >= pressure, axis=1)
        suits &= np.all(self._caused[:, :, at] <= np.maximum(slack, 0.0) + ROUNDING, axis=1)
        met = float(suits.mean())
        return WHOLE * float(np.searchsorted(self._met, met + ROUNDING, side="right")) / len(self._met)
