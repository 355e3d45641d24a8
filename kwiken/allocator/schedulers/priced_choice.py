"""Priced choice: nodes and sizes that reach a target at a low cost, found by prices of performance.

At a price of performance every node has a best size, the one that costs least beyond what its performance is
worth, and the nodes have an order. The first m nodes of the order are the cheapest m replicas of that total
performance (Lagrangian relaxation of a knapsack with a number of items). So one sort for each price gives
candidates for every number of replicas at once. Single swaps then use up what a candidate performs beyond the
target.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.allocator.placement.quality import Contention
from kwiken.allocator.placement.sizing import Sizing
from kwiken.base.arrays import Bools, Floats, Ints

PRICES: Final = 24
PRICE_RANGE: Final = (0.5, 8.0)  # from the least cost per performance, to the largest, as factors of them
MAX_CANDIDATES: Final = 6
MAX_SWAPS: Final = 40
MIN_GAIN: Final = 1e-9  # of cost, that a swap must save
MIN_CAUSED: Final = 1e-300  # keeps the number of replicas that a node bears finite
MAX_SIZES_COMPARED: Final = 32  # by which nodes are told apart, so that their codes are exact
BITS: Final = np.exp2(np.arange(MAX_SIZES_COMPARED))  # of the sizes that fit, in a node's code
STEPS: Final = np.arange(PRICES, dtype=np.float64)  # numbers of the prices, from 0


@dataclass(frozen=True, eq=False)
class _Options:
    """Replicas that could be added.

    Nodes of one kind differ in nothing that counts here: on each of them, a replica of a size costs and
    performs the same.

    Attributes:
        nodes: (n,) indices of the nodes; a node that may take several replicas is listed as often.
        groups: (n,) number of the anti-affinity group.
        kinds: (n,) index of the kind of node.
        cost: (t, k) cost of a replica in an hour by kind and size; infinite where it does not fit.
        worth: (t, k) performance of it that counts towards the target, with headroom, work per second.
        needed: (m,) performance that m replicas must add to those there are, before their efficiency, work
            per second.
        repeats_groups: whether several nodes may be in one anti-affinity group.
    """

    nodes: Ints
    groups: Ints
    kinds: Ints
    cost: Floats
    worth: Floats
    needed: Floats
    repeats_groups: bool


def priced_choices(
    sizing: Sizing, contention: Contention, dearer: Floats | None = None
) -> list[list[tuple[int, int]]]:
    """Sets of nodes and sizes that reach the target by estimate, the cheapest first, to be verified.

    Nodes come in order in each set, and sets of equal cost in the order of their nodes.

    Args:
        sizing: replicas so far, which stay.
        contention: contention at present on the nodes to use.
        dearer: (c,) factor of every node's cost, over all nodes of the cluster; None for 1.
    """
    if not sizing.request.required or len(sizing.replicas) >= len(sizing.request.efficiencies):
        return []
    options = _options(sizing, contention, dearer)
    if not np.isfinite(options.cost).any():
        return []
    swaps = _Swaps(options)
    found: dict[frozenset[tuple[int, int]], float] = {}
    for places, sizes in _candidates(options):
        cost = swaps.swap(places, sizes)
        found[frozenset(zip(places, sizes, strict=True))] = cost
    ranked = sorted((cost, sorted(key)) for key, cost in found.items())
    nodes: list[int] = options.nodes.tolist()
    return [[(nodes[place], size) for place, size in choice] for _, choice in ranked]


def _options(sizing: Sizing, contention: Contention, dearer: Floats | None) -> _Options:
    request, ledger = sizing.request, sizing.ledger
    open_now = sizing.open_nodes()[contention.nodes] & ~contention.refused.all(axis=0)
    nodes, loss = contention.nodes[open_now], contention.loss.T[open_now]
    refused = contention.refused.T[open_now]
    cores, memory_gb = request.all_cores, request.memory_gb
    if sizing.anti_affinity.shares_nodes:
        most = len(request.efficiencies) - len(sizing.replicas)
        room = np.minimum((ledger.free_cores[nodes] + ROUNDING) // request.all_cores.min(), most)
        bearable = np.where(refused, 0.0, _bearable(sizing, nodes))
        room = np.minimum(room, bearable.max(axis=1, initial=0.0))
        repeats = np.maximum(room.astype(np.int64), 1)
        counts = np.concatenate([np.arange(1, count + 1) for count in repeats.tolist()] or [nodes])
        nodes, loss = np.repeat(nodes, repeats), np.repeat(loss, repeats, axis=0)
        refused = counts[:, None] > np.repeat(bearable, repeats, axis=0)
        # Replicas of one node are supposed to be of one size here.
        cores, memory_gb = counts[:, None] * cores, counts[:, None] * memory_gb
    fits = ledger.free_cores[nodes][:, None] >= cores - ROUNDING
    fits &= ledger.free_memory_gb[nodes][:, None] >= memory_gb - ROUNDING
    fits &= ~refused
    classes = ledger.cluster.class_of[nodes]
    left = 1.0 - np.maximum(loss, request.caution.later_loss)
    of_kind, kinds = np.arange(len(nodes)), np.arange(len(nodes))  # one node of each kind; kind of each node
    if dearer is None and fits.shape[1] <= MAX_SIZES_COMPARED:
        of_kind, kinds = _kinds(classes, fits, left)
    fits, classes = fits[of_kind], classes[of_kind]
    cost = request.cost[:, classes].T * request.work
    if dearer is not None:
        cost = cost * dearer[nodes][:, None]
    there, kept = sum(sizing.rate(place) for place in range(len(sizing.replicas))), len(sizing.replicas)
    by_zone = sizing.anti_affinity.closes_other_nodes
    groups = ledger.cluster.zones[nodes] if by_zone else np.arange(len(nodes))
    needed = request.required / request.efficiency[kept:] - there
    needed[: max(0, request.workload.min_nodes - kept - 1)] = np.inf
    return _Options(
        nodes=nodes,
        groups=np.asarray(groups, dtype=np.int64),
        kinds=kinds,
        cost=np.where(fits, cost, np.inf),
        worth=np.where(fits, request.sure_rate[:, classes].T * left[of_kind], 0.0),
        needed=needed,
        repeats_groups=by_zone,
    )


def _kinds(classes: Ints, fits: Bools, left: Floats) -> tuple[Ints, Ints]:
    """Tell nodes apart by their class, by the sizes that fit, and by what contention leaves.

    Returns:
        The first node of each kind, and (n,) index of the kind of each node.
    """
    codes = np.ldexp(classes, fits.shape[1]) + fits.astype(np.float64) @ BITS[: fits.shape[1]]
    keys = (codes,) if (left == left[:1]).all() else (*left.T, codes)
    order = np.lexsort(keys)
    starts = np.ones(len(order), dtype=np.bool_)
    starts[1:] = False
    for key in keys:
        ranked = key[order]
        starts[1:] |= ranked[1:] != ranked[:-1]
    kinds = np.empty(len(order), dtype=np.int64)
    kinds[order] = starts.cumsum() - 1
    return order[starts], kinds


def _bearable(sizing: Sizing, nodes: Ints) -> Floats:
    """(n, k) number of replicas of a size that can be added on a node before they harm one another or others.

    Contention at present only tells about the first one.
    """
    request, ledger = sizing.request, sizing.ledger
    classes, found = ledger.cluster.class_of[nodes], np.full((len(nodes), len(request.cores)), np.inf)
    for source in request.pressed:
        caused, limits = (each[source].T[classes] for each in (request.all_pressure, request.borne))
        spare = limits - ledger.pressure[source][nodes, None]
        among = np.floor((spare + ROUNDING) / np.maximum(caused, MIN_CAUSED)) + 1
        beside = np.floor((ledger.slack[source][nodes, None] + ROUNDING) / np.maximum(caused, MIN_CAUSED))
        np.minimum(found, np.minimum(among, beside), out=found, where=caused > 0)
    return found


def _candidates(options: _Options) -> list[tuple[list[int], list[int]]]:
    """Positions of nodes and sizes that reach the target, by price and number of replicas, the cheapest."""
    fits = np.isfinite(options.cost)
    per = options.cost[fits] / np.maximum(options.worth[fits], 1e-300)
    prices = _prices(PRICE_RANGE[0] * float(per.min()), PRICE_RANGE[1] * float(per.max()))
    value = options.cost - prices[:, None, None] * options.worth
    best_sizes = value.argmin(axis=2)
    order = np.argsort(value.min(axis=2)[:, options.kinds], axis=1, kind="stable")
    if options.repeats_groups:
        order = np.array([_first_of_groups(row, options.groups) for row in order])
    order = order[:, : len(options.needed)]
    kinds = options.kinds[order]
    sizes = best_sizes[np.arange(PRICES)[:, None], kinds]
    worth = options.worth[kinds, sizes].cumsum(axis=1)
    cost = options.cost[kinds, sizes].cumsum(axis=1)
    cost[worth < options.needed[: order.shape[1]] * (1 - ROUNDING)] = np.inf
    found = []
    # The cheapest of each number of replicas, as another number may gain more by swaps.
    best = cost.argmin(axis=0)
    numbers = np.argsort(cost[best, np.arange(cost.shape[1])], kind="stable")[:MAX_CANDIDATES]
    for last in numbers.tolist():
        row = int(best[last])
        if np.isfinite(cost[row, last]):
            found.append((order[row, : last + 1].tolist(), sizes[row, : last + 1].tolist()))
    return found


def _prices(low: float, high: float) -> Floats:
    """Prices from the lowest to the highest, each the same factor above the one before.

    These are the numbers of `np.geomspace`, which takes several times as long for so few of them.
    """
    first, last = np.log10(low), np.log10(high)
    prices = np.power(10.0, STEPS * ((last - first) / (PRICES - 1)) + first)
    prices[0], prices[-1] = low, high
    return np.asarray(prices)


def _first_of_groups(order: Ints, groups: Ints) -> Ints:
    """The order, with the first position of each group only."""
    _, first = np.unique(groups[order], return_index=True)
    return order[np.sort(first)]


class _Swaps:
    """Swaps of one replica of a choice for a cheaper one, as plain numbers, which are faster one at a time.

    Replicas of equal cost and worth may be swapped for the same ones. So offers of every kind and size are
    looked at once for them, the cheapest first, until one is open and performs enough.
    """

    def __init__(self, options: _Options) -> None:
        self._cost: list[list[float]] = options.cost.tolist()
        self._worth: list[list[float]] = options.worth.tolist()
        self._kinds: list[int] = options.kinds.tolist()
        self._groups: list[int] = options.groups.tolist()
        self._needed: list[float] = options.needed.tolist()
        self._members: list[list[int]] = [[] for _ in self._cost]
        for place, kind in enumerate(self._kinds):
            self._members[kind].append(place)
        self._offers = sorted(
            (cost, worth, kind, size)
            for kind, costs in enumerate(self._cost)
            for size, (cost, worth) in enumerate(zip(costs, self._worth[kind], strict=True))
            if cost < math.inf
        )
        # What the offers up to each one are worth at most.
        self._reach = list(accumulate((worth for _, worth, _, _ in self._offers), max))

    def swap(self, places: list[int], sizes: list[int]) -> float:
        """Swap one replica after another for a cheaper one, while the target is reached.

        Each swap saves the most; of equal ones it is that of the first replica, for the first node and size.

        Args:
            places: positions of the nodes of a choice; changed in place.
            sizes: indices of the sizes; changed in place.

        Returns:
            Cost of the choice in an hour.
        """
        needed = self._needed[len(places) - 1] * (1 - ROUNDING)
        found = [self._cost_and_worth(*one) for one in zip(places, sizes, strict=True)]
        row_of = {self._groups[place]: row for row, place in enumerate(places)}
        for _ in range(MAX_SWAPS):
            spare = float(np.array([worth for _, worth in found]).sum()) - needed
            if (best := self._best(found, row_of, spare)) is None:
                break
            row, place, size = best
            del row_of[self._groups[places[row]]]
            places[row], sizes[row], found[row] = place, size, self._cost_and_worth(place, size)
            row_of[self._groups[place]] = row
        return float(np.array([cost for cost, _ in found]).sum())

    def _cost_and_worth(self, place: int, size: int) -> tuple[float, float]:
        kind = self._kinds[place]
        return self._cost[kind][size], self._worth[kind][size]

    def _best(
        self, found: list[tuple[float, float]], row_of: dict[int, int], spare: float
    ) -> tuple[int, int, int] | None:
        """Row of the replica to swap, with the position of the node and the size to swap it for.

        Args:
            found: cost and worth of the replicas of a choice, by row.
            row_of: row by anti-affinity group.
            spare: worth that is not needed, work per second.
        """
        first: dict[tuple[float, float], int] = {}
        for row, alike in enumerate(found):
            first.setdefault(alike, row)
        most, best = 0.0, None
        for alike, row in first.items():
            cost, worth = alike
            # No offer before this one is worth enough, beyond all rounding.
            start = bisect_left(self._reach, worth - spare - ROUNDING * (worth + abs(spare)))
            for offered, offer_worth, kind, size in self._offers[start:]:
                saved = cost - offered
                if saved <= MIN_GAIN or saved < most:
                    break
                if worth - offer_worth > spare:
                    continue
                for place in self._members[kind]:
                    there = row_of.get(self._groups[place])
                    if there is not None and found[there] != alike:
                        continue  # another replica of the group stays
                    swap = row if there is None else there, place, size
                    if best is None or saved > most or swap < best:
                        most, best = saved, swap
                    if swap[0] == row:
                        break  # further places of the kind come later for this row, and for all others
        return best
