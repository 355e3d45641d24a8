"""Hashed scheduler: a server whose state is near what a workload needs, found by hashing (LSH, section 2.7).

A server's point has two coordinates for each source: what a newcomer meets, 1 less the pressure, and what the
residents can still bear, their slack. A workload fits where both are at least what it needs. Both are in the
ledger already; the index only finds servers whose point is near.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING, NodeLedger
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.baselines import reservation
from kwiken.allocator.schedulers.node_queue import nodes_with_room
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Bools, Floats, Ints
from papers.worlds.schedulers.hashed_index import HashFamily

STEP: Final = 0.1  # by which the searched point moves up on every coordinate
RADIUS: Final = 1.2  # of the search for servers, over all coordinates
NEARLY: Final = 1e-6  # of a squared distance, beyond all rounding
EMPTY: Final = 1.0  # slack of a server without residents


@dataclass(eq=False)
class NearestServerScheduler:
    """Takes the class whose predicted performance is best, and there the tightest server that is found.

    Servers are found by a walk from the workload's own point upward, so that tight fits come first: at each
    step those within the radius that share a key with the searched point. Where the walk finds none, all
    servers of the class are looked at. A replica changes no server but its own, so the servers that fit are
    found once for a workload.

    Attributes:
        exact: whether all servers of a class are looked at before the next class is tried.
    """

    seed: int
    exact: bool = True
    name: str = "hashed"
    _servers: _Servers | None = None

    def place(self, sizing: Sizing) -> None:
        """Place the reservation, one replica after the other."""
        wanted = reservation(sizing.request)
        if len(sizing.replicas) >= wanted.count:
            return
        if self._servers is None or self._servers.ledger is not sizing.ledger:
            self._servers = _Servers(sizing.ledger, HashFamily(2 * len(SOURCES), RADIUS, seed=self.seed))
        self._servers.renew()
        fitting = self._servers.fitting(sizing, wanted.size)
        classes, rates = sizing.ledger.cluster.class_of[fitting], sizing.request.rates[wanted.size]
        for node_class in sorted(range(len(rates)), key=lambda one: -rates[one]):
            nodes = fitting[classes == node_class]
            if sizing.anti_affinity.closes_other_nodes:  # those of the classes before closed some
                nodes = nodes[sizing.open_nodes()[nodes]]
            search = _Search(self._servers, sizing, wanted.size, nodes)
            while (node := search.tightest(exact=self.exact)) is not None:
                sizing.add(node, wanted.size)
                if len(sizing.replicas) >= wanted.count:
                    return
                search.taken(node)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the whole reservation was placed."""
        return len(sizing.replicas) >= reservation(sizing.request).count


@dataclass(eq=False)
class _Servers:
    """Points and keys of all servers of a ledger, as they were when they were last renewed.

    Attributes:
        points: (2 s, n) room for what a newcomer needs, then what residents can bear, to 1.
        keys: (n, t) keys of the points.
    """

    ledger: NodeLedger
    family: HashFamily
    points: Floats = field(init=False)
    keys: Ints = field(init=False)
    _seen: int = field(init=False)  # changes of the ledger that are known here

    def __post_init__(self) -> None:
        """Take all servers as they are."""
        number = len(self.ledger.cluster.nodes)
        self.points = np.empty((2 * len(SOURCES), number))
        self.keys = np.empty((number, self.family.tables), dtype=np.int64)
        self._move(np.arange(number))

    def renew(self) -> None:
        """Move the points of the servers that have changed."""
        changed = np.flatnonzero(self.ledger.last_change > self._seen)
        if changed.size:
            self._move(changed)

    def _move(self, nodes: Ints) -> None:
        ledger, self._seen = self.ledger, self.ledger.changes
        met = 1.0 - ledger.pressure[:, nodes]
        moved = np.concatenate((met, np.minimum(ledger.slack[:, nodes], EMPTY)))
        self.points[:, nodes] = moved
        self.keys[nodes] = self.family.keys(moved.T)

    def fitting(self, sizing: Sizing, size: int) -> Ints:
        """Servers that have room for a replica, bear the newcomer and are borne by the newcomer."""
        fits = np.logical_and.reduce(self.points >= (_needs(sizing) - ROUNDING)[:, None], axis=0)
        nodes = nodes_with_room(sizing, size)
        return np.asarray(nodes[fits[nodes]])


class _Search:
    """Walk over the servers of one class that fit a workload.

    Args:
        nodes: (m,) servers that fit, in order.
    """

    def __init__(self, servers: _Servers, sizing: Sizing, size: int, nodes: Ints) -> None:
        self._servers, self._sizing, self._size = servers, sizing, size
        self._nodes = nodes
        self._open = np.ones(len(nodes), dtype=np.bool_)  # servers that still fit
        self._needs = _needs(sizing)
        self._points: Floats = servers.points.take(nodes, axis=1).T
        self._squares = np.einsum("mi,mi->m", self._points, self._points)
        self._loose = self._looseness(nodes, self._points)
        at, self._steps = np.maximum(self._needs, 0.0), []
        while True:
            at = np.minimum(at + STEP, 1.0)
            self._steps.append(at)
            if (at >= 1.0).all():
                break
        self._found: list[Bools] = []  # servers by step, as far as steps were searched

    def tightest(self, *, exact: bool) -> int | None:
        """The tightest server of the first step that finds any; None where none is left.

        Args:
            exact: whether all servers that fit are looked at after the last step.
        """
        if not self._open.any():
            return None
        for number, at in enumerate(self._steps):
            if number == len(self._found):
                self._found.append(self._near(at, np.arange(len(self._nodes))))
            places = np.flatnonzero(self._found[number] & self._open)
            if places.size:
                return self._least(places, at)
        return self._least(np.flatnonzero(self._open), None) if exact else None

    def taken(self, node: int) -> None:
        """Account for a replica that came to a server."""
        sizing, anti_affinity = self._sizing, self._sizing.anti_affinity
        if anti_affinity.closes_other_nodes:
            self._open &= sizing.open_nodes()[self._nodes]
            return
        place = int(np.searchsorted(self._nodes, node))
        if not anti_affinity.shares_nodes:
            self._open[place] = False
            return
        self._servers.renew()
        point = self._servers.points[:, node]
        self._open[place] = sizing.takes(node, self._size) and bool(np.all(point >= self._needs - ROUNDING))
        self._points[place], self._squares[place] = point, point @ point
        here = np.array([place])
        self._loose[place] = self._looseness(self._nodes[here], self._points[here])[0]
        for found, at in zip(self._found, self._steps, strict=False):
            found[place] = self._near(at, here)[0]

    def _near(self, at: Floats, places: Ints) -> Bools:
        """(m,) whether servers are within the radius of a point, and share a key with the point."""
        found = np.zeros(len(places), dtype=np.bool_)
        squares = self._squares[places] - 2.0 * (self._points[places] @ at) + at @ at
        near = np.flatnonzero(squares <= RADIUS**2 + NEARLY)
        near = near[np.linalg.norm(self._points[places[near]] - at, axis=1) <= RADIUS]
        if near.size:
            key = self._servers.family.keys(at[None, :])
            found[near] = (self._servers.keys[self._nodes[places[near]]] == key).any(axis=1)
        return found

    def _least(self, places: Ints, at: Floats | None) -> int:
        """The tightest of some servers; of equal ones the nearest to a point, then the first."""
        loose = self._loose[places]
        places = places[loose == loose.min()]
        if len(places) > 1 and at is not None:
            places = places[[np.linalg.norm(self._points[places] - at, axis=1).argmin()]]
        return int(self._nodes[places[0]])

    def _looseness(self, nodes: Ints, points: Floats) -> Floats:
        """(m,) how loose a fit is; of equal ones the busier server."""
        ledger = self._servers.ledger
        loose = (points - np.maximum(self._needs, 0.0)).sum(axis=1)
        return np.asarray(loose + 1e-6 * ledger.free_cores[nodes] / ledger.cluster.cores[nodes])


def _needs(sizing: Sizing) -> Floats:
    """(2 s,) point of a workload: how much it needs of each source, and how much it causes.

    Best-effort work is promised nothing, and so needs nothing; pressure may exceed 1 beside such work.
    """
    request = sizing.request
    promised = not request.workload.best_effort
    needs = 1.0 - request.tolerated if promised else np.full(len(SOURCES), -np.inf)
    return np.concatenate((needs, np.minimum(request.caused, EMPTY)))
