"""Hashed scheduler: a server whose state is near what a workload needs, found by hashing (LSH, section 2.7).

A server's point has two coordinates for each source: what a newcomer meets, 1 less the pressure, and what the
residents can still bear, their slack. A workload fits where both are at least what it needs. Both are in the
ledger already; the index only finds servers whose point is near.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.allocator.neighbours import HashedIndex
from kwiken.allocator.placement import ROUNDING, NodeLedger, Sizing
from kwiken.allocator.schedulers.baselines import reservation
from kwiken.allocator.workloads import SOURCES
from kwiken.base.arrays import Bools, Floats, Ints

STEP: Final = 0.1  # by which the searched point moves up on every coordinate
RADIUS: Final = 1.2  # of the index of servers, over all coordinates
EMPTY: Final = 1.0  # slack of a server without residents


@dataclass(eq=False)
class NearestServerScheduler:
    """Takes the class whose predicted performance is best, and there the tightest server that is found.

    Servers are found by a walk of a hashed index from the workload's own point upward, so that tight fits
    come first. Where the walk finds none, all servers of the class are looked at.

    Attributes:
        exact: whether all servers of a class are looked at before the next class is tried.
    """

    seed: int = 0
    exact: bool = True
    name: str = "hashed"
    _ledger: NodeLedger | None = None
    _indexes: list[HashedIndex] = field(default_factory=list)  # of the servers, by class
    _points: Floats = field(default_factory=lambda: np.empty((0, 0)))  # (n, 2 s) points as they are indexed

    def place(self, sizing: Sizing) -> None:
        """Place the reservation, one replica after the other; each is found anew."""
        wanted, ledger = reservation(sizing.request), sizing.ledger
        self._watch(ledger)
        free = sizing.open_nodes()
        rates = sizing.request.rates[wanted.size]
        order = sorted(range(len(rates)), key=lambda one: -rates[one])
        while len(sizing.replicas) < wanted.count:
            node = next(self._found(sizing, wanted.size, order, free), None)
            if node is None:
                return
            sizing.add(node, wanted.size)
            sizing.anti_affinity.close(node, free)
            self._update(node)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the whole reservation was placed."""
        return len(sizing.replicas) >= reservation(sizing.request).count

    def _found(self, sizing: Sizing, size: int, order: list[int], free: Bools) -> Iterator[int]:
        """Servers that fit, the tightest of the best class first."""
        for node_class in order:
            for near in self._near(sizing, node_class):
                fits = near[self._dominates(sizing, size, near, free)]
                if fits.size:
                    yield int(fits[np.argmin(self._slack_sum(sizing, fits))])

    def _near(self, sizing: Sizing, node_class: int) -> Iterator[Ints]:
        """Servers of a class by the walk, and at last all of them."""
        index = self._indexes[node_class]
        at = np.maximum(_needs(sizing), 0.0)
        while True:
            at = np.minimum(at + STEP, 1.0)
            if found := index.query(at):
                yield np.array([node for node, _ in found], dtype=np.int64)
            if (at >= 1.0).all():
                break
        if self.exact:
            yield np.flatnonzero(sizing.ledger.cluster.class_of == node_class)

    def _dominates(self, sizing: Sizing, size: int, nodes: Ints, free: Bools) -> Bools:
        """(m,) whether nodes have room, and bear and are borne, by the ledger as it is now."""
        request, ledger = sizing.request, sizing.ledger
        fits = free[nodes] & (ledger.free_cores[nodes] >= request.all_cores[size] - ROUNDING)
        fits &= ledger.free_memory_gb[nodes] >= request.memory_gb[size] - ROUNDING
        fits &= np.all(_points(ledger, nodes) >= _needs(sizing) - ROUNDING, axis=1)
        return np.asarray(fits)

    def _slack_sum(self, sizing: Sizing, nodes: Ints) -> Floats:
        """(m,) how loose a fit is; of equal ones the busier server."""
        ledger = sizing.ledger
        loose = (_points(ledger, nodes) - np.maximum(_needs(sizing), 0.0)).sum(axis=1)
        return np.asarray(loose + 1e-6 * ledger.free_cores[nodes] / ledger.cluster.cores[nodes])

    def _watch(self, ledger: NodeLedger) -> None:
        """Index the servers of a ledger; of one that is known, those whose state has changed."""
        points = _points(ledger, np.arange(len(ledger.cluster.nodes), dtype=np.int64))
        if ledger is not self._ledger:
            self._ledger = ledger
            self._indexes = [
                HashedIndex(2 * len(SOURCES), RADIUS, seed=self.seed) for _ in ledger.cluster.classes
            ]
            self._points = np.full_like(points, np.nan)
        for node in np.flatnonzero(np.any(self._points != points, axis=1)).tolist():
            self._update(node)

    def _update(self, node: int) -> None:
        """Move the point of a server to its state of now."""
        assert self._ledger is not None
        self._points[node] = _points(self._ledger, np.array([node]))[0]
        self._indexes[self._ledger.cluster.class_numbers[node]].add(node, self._points[node])


def _points(ledger: NodeLedger, nodes: Ints) -> Floats:
    """(m, 2 s) points of servers: room for what a newcomer needs, then what residents can bear, to 1."""
    met = 1.0 - ledger.pressure[:, nodes]
    borne = np.minimum(ledger.slack[:, nodes], EMPTY)
    return np.asarray(np.concatenate((met, borne)).T)


def _needs(sizing: Sizing) -> Floats:
    """(2 s,) point of a workload: how much it needs of each source, and how much it causes.

    Best-effort work is promised nothing, and so needs nothing; pressure may exceed 1 beside such work.
    """
    request = sizing.request
    promised = not request.workload.best_effort
    needs = 1.0 - request.tolerated if promised else np.full(len(SOURCES), -np.inf)
    return np.concatenate((needs, np.minimum(request.all_caused, EMPTY)))
