"""Baselines that know nothing of the workload on a node: least-loaded placement of a reservation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.node_queue import fill, nodes_with_room

# Mean by which reservations exceed the need in the source's model of users (Quasar section 3.13).
MEAN_OVER_RESERVATION: Final = 2.94


@dataclass(frozen=True)
class Reservation:
    """Resources that a workload asks for without any prediction of its performance.

    Attributes:
        size: index of the size of each replica.
    """

    size: int
    count: int


def reservation(request: PlacementRequest, factor: float = 1.0) -> Reservation:
    """Reservation of a workload: its user's, or else the need at the median over the classes, alone.

    Args:
        request: workload; best-effort work reserves as many replicas as it may have.
        factor: how many times the need is reserved, above 0, where its user has not said what to reserve.

    Returns:
        Replicas of the size with the best performance for its cost, as many as the target needs.
    """
    most = len(request.efficiency)
    if request.reserved is not None:
        return Reservation(0, min(most, request.reserved))
    if not request.required:
        return Reservation(request.typical_size, most)
    enough = request.typical_count
    count = most if enough is None else enough
    count = max(math.ceil(count * factor - 1e-9), request.workload.min_nodes)
    return Reservation(request.typical_size, min(most, count))


@dataclass(frozen=True)
class LeastLoadedScheduler:
    """Least-loaded placement by cores and memory only (Paragon section 3.11).

    Attributes:
        factor: how many times the need is reserved, a factor above 0.
    """

    factor: float = 1.0
    name: str = "least-loaded"

    def place(self, sizing: Sizing) -> None:
        """Place each replica on the node with the largest free share of cores, then of memory."""
        request, ledger = sizing.request, sizing.ledger
        wanted = reservation(request, self.factor)
        cores, memory_gb = float(request.all_cores[wanted.size]), float(request.memory_gb[wanted.size])

        def key_of(node: int) -> tuple[float, float] | None:
            if not ledger.fits(node, cores, memory_gb):
                return None
            return -float(ledger.free_cores[node] / whole[node]), -float(ledger.free_memory_gb[node])

        whole = ledger.cluster.cores
        nodes = nodes_with_room(sizing, wanted.size)
        keys = -(ledger.free_cores[nodes] / whole[nodes]), -ledger.free_memory_gb[nodes]
        fill(sizing, wanted.size, wanted.count, (nodes, keys), key_of)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the whole reservation was placed."""
        return len(sizing.replicas) >= reservation(sizing.request, self.factor).count


def reservation_scheduler() -> LeastLoadedScheduler:
    """Least-loaded placement of a user's reservation, which exceeds the need as the source's users do."""
    return LeastLoadedScheduler(MEAN_OVER_RESERVATION, "reservation")
