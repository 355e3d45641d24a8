"""Paragon's scheduler: a reservation placed by class and contention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.baselines import Reservation, reservation
from kwiken.allocator.schedulers.node_queue import fill, nodes_with_room
from kwiken.base.arrays import Bools, Floats, Ints

STEP_OF_TOLERANCE: Final = 0.05  # by which a violation is allowed when no node is left, a share
FULL: Final = 1.0  # the most pressure that is felt, and the slack of an empty node


@dataclass(frozen=True)
class ParagonScheduler:
    """Greedy choice of a node for each replica of a reservation (Paragon section 3.7).

    Attributes:
        by_class: whether predicted performance by class is used; without it the tightest fit of any class is
            taken (Paragon section 3.11, NH).
        by_contention: whether predicted contention is used; without it the first node of the best class with
            room is taken (Paragon section 3.11, NI).
        margin: pressure on each source that is kept free on both sides, a share from 0 to 1. The tightest fit
            without a margin spends the 5% that a target leaves on contention alone.
        violates: whether a replica is placed with the least violation where contention allows no node;
            without it the replica has to wait.
    """

    by_class: bool = True
    by_contention: bool = True
    margin: float = 0.0
    violates: bool = True
    name: str = "paragon"

    def place(self, sizing: Sizing) -> None:
        """Take, among nodes that contention allows, the best class, and there the tightest fit.

        There are three cases: 1. contention does not count; 2. nodes that contention allows without a
        violation; 3. when there are none left, those with the least violation.
        """
        wanted = reservation(sizing.request)
        missing = wanted.count - len(sizing.replicas)
        if missing <= 0:
            return
        nodes = nodes_with_room(sizing, wanted.size)
        if self.by_contention:
            nodes = _unharmed(sizing, nodes, self.margin)

        ranks = self._rank_of_class(sizing, wanted.size)[sizing.ledger.cluster.class_of]
        if missing < len(nodes) and not sizing.anti_affinity.closes_other_nodes:
            # The class comes first, so the fit matters on nodes of the best classes only.
            by_class = ranks[nodes]
            nodes = nodes[by_class <= np.partition(by_class, missing - 1)[missing - 1]]

        def keys(some: Ints) -> tuple[Floats, ...]:
            if not self.by_contention:
                return (ranks[some],)
            return ranks[some], _distance(*differences(sizing, some, self.margin))

        def key_of(node: int) -> tuple[float, ...] | None:
            here = with_room(sizing, wanted.size, np.array([node]))
            if self.by_contention:
                here = _unharmed(sizing, here, self.margin)
            return tuple(float(key[0]) for key in keys(here)) if here.size else None

        fill(sizing, wanted.size, wanted.count, (nodes, keys(nodes)), key_of)
        if self.by_contention and self.violates and len(sizing.replicas) < wanted.count:
            self._place_with_violations(sizing, wanted)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the whole reservation was placed."""
        return len(sizing.replicas) >= reservation(sizing.request).count

    def _rank_of_class(self, sizing: Sizing, size: int) -> Floats:
        """(c,) rank of each class, the least for the best predicted one, and one rank for those alike."""
        rates = sizing.request.rates[size]
        ranks = np.zeros(len(rates))
        if self.by_class:
            best = math.inf
            for node_class in sorted(range(len(rates)), key=rates.__getitem__, reverse=True):
                if rates[node_class] < best * (1 - ROUNDING):
                    best = rates[node_class]
                ranks[node_class] = -best
        return ranks

    def _place_with_violations(self, sizing: Sizing, wanted: Reservation) -> None:
        """Place what is left of a reservation where the violation is least."""
        request, free = sizing.request, sizing.open_nodes()
        rate = request.rate[wanted.size, sizing.ledger.cluster.class_of]
        nodes = with_room(sizing, wanted.size, np.flatnonzero(free))
        spare, margin = differences(sizing, nodes, self.margin)
        while len(sizing.replicas) < wanted.count and nodes.size:
            alive = _tolerable(spare, request.caused) & _tolerable(margin, -request.tolerated)
            if not alive.any():  # both filters alone left nodes, and no node passed both
                alive = np.ones(len(nodes), dtype=np.bool_)
            if self.by_class:
                alive &= rate[nodes] >= rate[nodes[alive]].max() * (1 - ROUNDING)
            places = np.flatnonzero(alive)
            place = int(places[np.argmin(_distance(spare[:, places], margin[:, places]))])
            node = int(nodes[place])
            sizing.add(node, wanted.size)
            sizing.anti_affinity.close(node, free)
            spare[:, [place]], margin[:, [place]] = differences(sizing, nodes[[place]], self.margin)
            left = free[nodes]
            left[place] &= with_room(sizing, wanted.size, nodes[[place]]).size > 0
            nodes, spare, margin = nodes[left], spare[:, left], margin[:, left]


def differences(sizing: Sizing, nodes: Ints, kept: float = 0.0) -> tuple[Floats, Floats]:
    """(s, m) what residents can bear beyond a reserved replica, and the replica beyond what is there.

    Both are less by the share that is kept free.
    """
    request, ledger, size = sizing.request, sizing.ledger, reservation(sizing.request).size
    classes = ledger.cluster.class_of[nodes]
    caused, tolerated = (each[:, size][:, classes] for each in (request.all_pressure, request.borne))
    spare = np.minimum(ledger.slack[:, nodes], FULL) - (caused + kept)
    margin = (tolerated - kept) - np.minimum(ledger.pressure[:, nodes], FULL)
    return spare, margin


def _distance(spare: Floats, margin: Floats) -> Floats:
    """(m,) how far from a tight fit; slack on one side must not pay for a violation on the other."""
    violation = np.maximum(-spare, 0) + np.maximum(-margin, 0)
    return np.asarray((np.abs(spare) + np.abs(margin) + 10 * violation).sum(axis=0))


def _unharmed(sizing: Sizing, nodes: Ints, kept: float) -> Ints:
    """Those of some nodes where both sides tolerate each other with a margin."""
    request, ledger, size = sizing.request, sizing.ledger, reservation(sizing.request).size
    classes = ledger.cluster.class_of[nodes]
    least_slack = request.all_pressure[:, size] + kept - ROUNDING
    most_pressure = request.borne[:, size] - kept + ROUNDING
    # Pressure above `FULL` counts as `FULL`.
    most_pressure[most_pressure >= FULL] = np.inf
    fine: Bools = np.all(ledger.slack[:, nodes] >= least_slack[:, classes], axis=0)
    fine &= np.all(ledger.pressure[:, nodes] <= most_pressure[:, classes], axis=0)
    return np.asarray(nodes[fine])


def with_room(sizing: Sizing, size: int, nodes: Ints) -> Ints:
    """Those of some nodes that have room for a replica."""
    request, ledger = sizing.request, sizing.ledger
    room = ledger.free_cores[nodes] >= request.all_cores[size] - ROUNDING
    room &= ledger.free_memory_gb[nodes] >= request.memory_gb[size] - ROUNDING
    return np.asarray(nodes[room])


def _tolerable(difference: Floats, hardness: Floats) -> Bools:
    """(m,) nodes that pass for every source, hardest first; a source that leaves none allows a violation.

    The violation is allowed in steps, as little as lets one node pass of those that the sources before it
    left. There is always such a node, so the source's way back to sources before it is never taken.

    Args:
        difference: (s, m) tolerance less pressure.
        hardness: (s,) order of the sources, largest first.
    """
    tolerable = difference >= -ROUNDING
    passing: Bools = np.all(tolerable, axis=0)
    if passing.any() or not passing.size:
        return passing
    passing = np.ones(difference.shape[1], dtype=np.bool_)
    for source in np.argsort(-hardness, kind="stable").tolist():
        left = passing & tolerable[source]
        if not left.any():
            missing = -float(difference[source, passing].max())
            allowed = STEP_OF_TOLERANCE * math.ceil((missing - ROUNDING) / STEP_OF_TOLERANCE)
            left = passing & (difference[source] >= -allowed - ROUNDING)
        passing = left
    return passing
