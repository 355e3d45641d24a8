"""Paragon's schedulers: a reservation placed by class and contention, greedily or by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.arrays import Bools, Floats, Ints
from kwiken.placement import ROUNDING, Sizing
from kwiken.placement.schedulers.baselines import anti_affinity, reservation

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
        name: name of the scheduler.
    """

    by_class: bool = True
    by_contention: bool = True
    name: str = "paragon"

    def place(self, sizing: Sizing) -> None:
        """Take, among nodes that contention allows, the best class, and there the tightest fit."""
        wanted = reservation(sizing.request)
        while len(sizing.replicas) < wanted.count:
            nodes = _with_room(sizing, wanted.size)
            if not nodes.size:
                return
            sizing.add(self._chosen(sizing, nodes, wanted.size), wanted.size)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the whole reservation was placed."""
        return len(sizing.replicas) >= reservation(sizing.request).count

    def _chosen(self, sizing: Sizing, nodes: Ints, size: int) -> int:
        rate = sizing.request.rate[size, sizing.ledger.cluster.class_of[nodes]]
        if not self.by_contention:
            return int(nodes[np.argmax(rate)])
        candidates = self._allowed(sizing, nodes, rate)
        if not candidates.size:
            spare, margin = _differences(sizing, nodes)
            alive = _tolerable(spare, sizing.request.all_caused)
            alive &= _tolerable(margin, -sizing.request.tolerated)
            if not alive.any():  # both filters alone left nodes, and no node passed both
                alive = np.ones(len(nodes), dtype=np.bool_)
            if self.by_class:
                alive &= rate >= rate[alive].max() * (1 - ROUNDING)
            candidates = nodes[alive]
        spare, margin = _differences(sizing, candidates)
        # Slack on one side must not pay for a violation on the other: violations count ten times.
        distance = np.abs(spare) + np.abs(margin) + 10 * (np.maximum(-spare, 0) + np.maximum(-margin, 0))
        return int(candidates[np.argmin(distance.sum(axis=0))])

    def _allowed(self, sizing: Sizing, nodes: Ints, rate: Floats) -> Ints:
        """Nodes that contention allows without a violation, of the best class that has any."""
        if not self.by_class:
            return _unharmed(sizing, nodes)
        while nodes.size:
            best = rate.max()
            found = _unharmed(sizing, nodes[rate >= best * (1 - ROUNDING)])
            if found.size:
                return found
            worse = rate < best * (1 - ROUNDING)
            nodes, rate = nodes[worse], rate[worse]
        return nodes


@dataclass(frozen=True)
class StatisticalScheduler:
    """Best of a few random nodes for each replica of a reservation (Paragon section 3.8).

    If the quality of a random node is uniform, the chosen one is among the best tenth of the nodes but for
    one placement in `0.9 ** -candidates`, however large the cluster is. The source draws candidates by
    hashing scores, so that a draw is repeatable; a seeded generator is that too, and uniform.

    Attributes:
        rng: source of random numbers.
        candidates: number of nodes that are examined for each replica, 1 or more.
        name: name of the scheduler.
    """

    rng: np.random.Generator
    candidates: int = 64
    name: str = "paragon-statistical"

    def place(self, sizing: Sizing) -> None:
        """Take the best of the candidates that have room; draw again, and at last look at all nodes."""
        wanted = reservation(sizing.request)
        while len(sizing.replicas) < wanted.count:
            drawn = self.rng.integers(len(sizing.ledger.cluster.nodes), size=self.candidates)
            nodes = _with_room(sizing, wanted.size, np.unique(drawn))
            if not nodes.size and not (nodes := _with_room(sizing, wanted.size)).size:
                return
            best = int(nodes[np.argmax(colocation_quality(sizing, nodes))])
            sizing.add(best, wanted.size)

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the whole reservation was placed."""
        return len(sizing.replicas) >= reservation(sizing.request).count


def candidates_for(quality: float, failure: float) -> int:
    """Number of random nodes to examine (Paragon section 3.8).

    Args:
        quality: quantile of the nodes that the best candidate should reach, a share above 0 and below 1.
        failure: probability that none does, above 0 and below 1.
    """
    return math.ceil(math.log(failure) / math.log(quality) - 1e-9)


def colocation_quality(sizing: Sizing, nodes: Ints) -> Floats:
    """Quality of a node for a workload: how tight the fit is, and how small a violation.

    The formula that the source prints gives a perfect fit 0, and ranks large violations above small ones.
    Here it is 1 less the mean distance of slack and caused pressure where nothing is violated, else below 0.

    Args:
        sizing: workload.
        nodes: (m,) indices of nodes.

    Returns:
        (m,) quality, from -1 to 1, a share.
    """
    spare, margin = _differences(sizing, nodes)
    violation = np.maximum(np.maximum(-spare, -margin).max(axis=0), 0.0)
    distance = (np.abs(spare) + np.abs(margin)).mean(axis=0) / 2
    return np.asarray(np.where(violation > ROUNDING, -(violation + distance) / 2, 1.0 - distance))


def _differences(sizing: Sizing, nodes: Ints) -> tuple[Floats, Floats]:
    """(s, m) what residents can bear beyond the newcomer, and the newcomer beyond what is there."""
    request, ledger = sizing.request, sizing.ledger
    spare = np.minimum(ledger.slack[:, nodes], FULL) - request.all_caused[:, None]
    margin = request.tolerated[:, None] - np.minimum(ledger.pressure[:, nodes], FULL)
    return spare, margin


def _unharmed(sizing: Sizing, nodes: Ints) -> Ints:
    """Those of some nodes where newcomer and residents tolerate each other, one source after the other."""
    request, ledger = sizing.request, sizing.ledger
    for source, (caused, tolerated) in enumerate(zip(request.all_caused, request.tolerated, strict=True)):
        nodes = nodes[np.minimum(ledger.slack[source, nodes], FULL) - caused >= -ROUNDING]
        nodes = nodes[tolerated - np.minimum(ledger.pressure[source, nodes], FULL) >= -ROUNDING]
    return nodes


def _with_room(sizing: Sizing, size: int, nodes: Ints | None = None) -> Ints:
    """Those of some nodes, or of all, that have room for a replica and that anti-affinity leaves."""
    request, ledger = sizing.request, sizing.ledger
    some = np.arange(len(ledger.cluster.nodes)) if nodes is None else nodes
    room = ledger.free_cores[some] >= request.all_cores[size] - ROUNDING
    room &= ledger.free_memory_gb[some] >= request.memory_gb[size] - ROUNDING
    return np.asarray(some[room & anti_affinity(sizing)[some]])


def _tolerable(difference: Floats, hardness: Floats) -> Bools:
    """(m,) nodes that pass for every source, hardest first; with backtracking where none is left.

    Where a source leaves no node, its violation is allowed in steps, and if that does not help, violations of
    the sources before it are.

    Args:
        difference: (s, m) tolerance less pressure.
        hardness: (s,) order of the sources, largest first.
    """
    fine = np.all(difference >= -ROUNDING, axis=0)
    if fine.any():
        return np.asarray(fine)
    order = np.argsort(-hardness, kind="stable")
    allowed = np.zeros(len(order))
    passing = np.ones(difference.shape[1], dtype=np.bool_)  # by the sources so far
    for level, source in enumerate(order.tolist(), start=1):
        passing &= difference[source] >= -ROUNDING
        if passing.any():
            continue
        for place in range(level - 1, -1, -1):
            row = order[place]
            others = np.delete(order[:level], place)
            left = np.all(difference[others] >= -allowed[others, None] - ROUNDING, axis=0)
            # As little as lets one node pass that the others leave; if they leave none, all that is missing.
            missing = -difference[row, left].max() if left.any() else -difference[row].min()
            allowed[row] = STEP_OF_TOLERANCE * max(0, math.ceil((missing - ROUNDING) / STEP_OF_TOLERANCE))
            if left.any():
                break
        rows = order[:level]
        passing = np.all(difference[rows] >= -allowed[rows, None] - ROUNDING, axis=0)
    return np.asarray(passing)
