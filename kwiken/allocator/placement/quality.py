"""Quality of nodes for a workload: predicted performance of the largest replica that fits; ranks nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.placement.headroom import LOSS_AT_TOLERANCE
from kwiken.allocator.placement.node_ledger import ROUNDING, NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.base.arrays import Bools, Floats, Ints

NO_SIZE: Final = -1
FEW_NODES: Final = 256  # up to which all sizes are compared at once
FULL_PRESSURE: Final = 1.0  # what probes can exert; more pressure costs no more


@dataclass(frozen=True, eq=False)
class NodeScores:
    """How good nodes are for one more replica of a workload.

    Attributes:
        nodes: (n,) indices of the nodes.
        size: (n,) index of the largest size that fits; `NO_SIZE` where the node cannot take any, because of
            room or because residents and newcomer cannot stand each other.
        quality: (n,) predicted performance of that size, work per second; 0 for none.
        cells: (n,) index of that size and the node's class in flattened tables of sizes and classes; below 0
            for none.
    """

    nodes: Ints
    size: Ints
    quality: Floats
    cells: Ints


@dataclass(frozen=True, eq=False)
class Contention:
    """Contention that one more replica of a workload would meet.

    Attributes:
        nodes: (n,) indices of the nodes.
        loss: (k, n) share of the newcomer's performance lost to contention, by its size.
        refused: (k, n) whether newcomer and residents cannot stand each other, by its size.
        whole: whether these are all nodes of the cluster, in order.
    """

    nodes: Ints
    loss: Floats
    refused: Bools
    whole: bool = False

    def among(self, places: Ints) -> Contention:
        """The same for some of the nodes.

        Args:
            places: (m,) positions in `nodes`.
        """
        return Contention(self.nodes[places], self.loss[:, places], self.refused[:, places])


def contention_on(request: PlacementRequest, ledger: NodeLedger, nodes: Ints | None = None) -> Contention:
    """Contention on nodes (Quasar section 3.7 step 1, with residents' residual tolerance).

    A node is acceptable where the pressure on it costs the newcomer no more than it buys against neighbours
    (`Caution.later_loss`), and the newcomer's pressure is within the slack of every resident that was
    promised something. Best-effort work tolerates anything.

    Args:
        nodes: (m,) indices of the nodes; None for all of them.
    """
    pressure, slack, classes = ledger.pressure, ledger.slack, ledger.cluster.class_of
    if nodes is not None:
        pressure, slack, classes = pressure.take(nodes, axis=1), slack.take(nodes, axis=1), classes[nodes]
    count, sizes = len(classes), len(request.cores)
    rows = sizes if request.pressed else 1  # what presses on nothing is alike in all sizes
    ratio, refused = np.zeros((rows, count)), np.zeros((rows, count), dtype=np.bool_)
    for source in np.flatnonzero(pressure.any(axis=1)).tolist():
        found = pressure[source] * request.per_tolerance[source, :rows].take(classes, axis=1)
        robust = request.tolerance[source, :rows] >= FULL_PRESSURE
        if robust.any():
            np.minimum(found, FULL_PRESSURE, out=found, where=robust.take(classes, axis=1))
        np.maximum(ratio, found, out=ratio)
    for source in request.pressed:
        caused = request.all_pressure[source]
        least = np.where(caused > 0, caused - ROUNDING, -np.inf)
        refused |= slack[source] < least.take(classes, axis=1)
    loss = np.minimum(ratio, 1.0)
    loss *= loss
    loss *= loss
    loss *= LOSS_AT_TOLERANCE
    promised, most = not request.workload.best_effort, request.caution.most_loss
    if promised and most <= LOSS_AT_TOLERANCE:
        refused |= ratio > 1.0 + ROUNDING
    elif (crowded := np.nonzero(ratio > 1.0))[0].size:
        row, place = crowded
        limits = request.tolerance[:, row, classes[place]]
        loss[crowded] = contention_loss(pressure[:, place], limits).max(axis=0)
        if promised:
            refused |= loss > most + ROUNDING
    if rows < sizes:
        loss, refused = np.repeat(loss, sizes, axis=0), np.repeat(refused, sizes, axis=0)
    return Contention(np.arange(count) if nodes is None else nodes, loss, refused, nodes is None)


def node_scores(
    request: PlacementRequest, ledger: NodeLedger, contention: Contention, largest: int | None = None
) -> NodeScores:
    """Score nodes for one more replica of a workload (Quasar section 3.7 steps 1 and 2).

    Args:
        largest: index of the largest size to consider; None for all sizes.
    """
    nodes = contention.nodes
    sizes = len(request.cores) if largest is None else largest + 1
    free_cores, free_memory_gb, classes = ledger.free_cores, ledger.free_memory_gb, ledger.cluster.class_of
    if not contention.whole:
        free_cores, free_memory_gb, classes = free_cores[nodes], free_memory_gb[nodes], classes[nodes]
    size = _largest_fitting(request, free_cores, free_memory_gb, contention.refused, sizes)
    cells = size * request.rate.shape[1]
    cells += classes
    quality = request.rate.ravel().take(cells, mode="clip")
    quality *= 1.0 - contention.loss[size, np.arange(len(size))]  # of the last size where none fits
    quality *= size != NO_SIZE
    return NodeScores(nodes, size, quality, cells)


def contention_loss(pressure: Floats, tolerated: Floats) -> Floats:
    """Share of performance lost to contention, by source (Quasar section 3.5).

    Up to the tolerance the loss rises as the fourth power, to 5%; from there by the excess pressure. Probes
    exert full pressure at most; of a resource of which more is asked for than there is, each gets a share.
    The workload loses the largest of these shares.

    Args:
        pressure: (s, m) pressure on m replicas, without their own, a share, over `SOURCES`.
        tolerated: (s,) pressure that costs 5%, a share above 0, over `SOURCES`; or (s, m) of each replica.

    Returns:
        (s, m) shares from 0 to 1.
    """
    exerted = np.minimum(pressure, FULL_PRESSURE)
    limit = tolerated[:, None] if tolerated.ndim == 1 else tolerated
    within = LOSS_AT_TOLERANCE * np.minimum(exerted / limit, 1.0) ** 4
    lost = np.minimum(within + np.maximum(exerted - limit, 0.0), 1.0)
    beyond = np.where(limit < FULL_PRESSURE, 1.0 - 1.0 / np.maximum(pressure, FULL_PRESSURE), 0.0)
    return np.asarray(np.maximum(lost, beyond))


def worst_loss(pressure: Floats, tolerated: Floats) -> float:
    """Share of performance that one replica loses to contention; see `contention_loss`.

    Args:
        pressure: (s,) pressure on the replica, without its own, a share, over `SOURCES`; below 0 is none.
        tolerated: (s,) pressure that costs 5%, a share above 0, over `SOURCES`.
    """
    ratio = float((pressure / tolerated).max())
    if ratio <= 1.0:  # the loss rises with the ratio alone
        return loss_within(ratio)
    return float(contention_loss(np.maximum(pressure, 0.0)[:, None], tolerated).max())


def loss_within(ratio: float) -> float:
    """Share of performance that one replica loses to pressure within what it tolerates.

    Args:
        ratio: largest ratio of pressure to what is tolerated, up to 1; below 0 there is no pressure.
    """
    return LOSS_AT_TOLERANCE * max(ratio, 0.0) ** 4


def _largest_fitting(
    request: PlacementRequest, free_cores: Floats, free_memory_gb: Floats, refused: Bools, sizes: int
) -> Ints:
    """Index of the best size that fits, by node; sizes rise in performance."""
    cores, memory_gb = request.all_cores[:sizes], request.memory_gb[:sizes]
    if len(free_cores) <= FEW_NODES:
        held = (free_cores[:, None] >= cores - ROUNDING) & (free_memory_gb[:, None] >= memory_gb - ROUNDING)
        held &= ~refused[:sizes].T
        best = sizes - 1 - held[:, ::-1].argmax(axis=1)
        return np.asarray(np.where(held.any(axis=1), best, NO_SIZE))
    number = np.zeros(len(free_cores), dtype=np.int16)  # of the size, from 1; small integers are fast
    for place in range(sizes):
        fits = free_cores >= cores[place] - ROUNDING
        fits &= free_memory_gb >= memory_gb[place] - ROUNDING
        fits &= ~refused[place]
        np.maximum(number, fits * np.int16(place + 1), out=number)
    return number.astype(np.int64) - 1
