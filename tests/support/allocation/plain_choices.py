"""Priced choices in their plainest form: each node alone, and every swap beside every other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.allocator.placement.quality import Contention
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.schedulers.priced_choice import (
    MAX_CANDIDATES,
    MAX_SWAPS,
    MIN_GAIN,
    PRICE_RANGE,
    PRICES,
    _bearable,
)
from kwiken.base.arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class PlainOptions:
    """Replicas that could be added, with a row of every node."""

    nodes: Ints
    groups: Ints
    fits: Bools
    cost: Floats
    worth: Floats
    needed: Floats


def priced_choices(
    sizing: Sizing, contention: Contention, dearer: Floats | None = None
) -> list[list[tuple[int, int]]]:
    """What `kwiken.allocator.schedulers.priced_choice` finds, the long way."""
    if not sizing.request.required or len(sizing.replicas) >= len(sizing.request.efficiencies):
        return []
    options = _options(sizing, contention, dearer)
    if not options.fits.any():
        return []
    found: dict[frozenset[tuple[int, int]], float] = {}
    for chosen in plain_candidates(options):
        swapped = plain_swapped(options, *chosen)
        key = frozenset(zip(*(each.tolist() for each in swapped), strict=True))
        found[key] = float(options.cost[swapped].sum())
    ranked = sorted(found, key=lambda key: (found[key], sorted(key)))
    return [[(int(options.nodes[place]), size) for place, size in sorted(key)] for key in ranked]


def _options(sizing: Sizing, contention: Contention, dearer: Floats | None) -> PlainOptions:
    request, ledger = sizing.request, sizing.ledger
    open_now = ~contention.refused.all(axis=0) & sizing.open_nodes()[contention.nodes]
    nodes, loss = contention.nodes[open_now], contention.loss.T[open_now]
    most_of_size = np.where(
        contention.refused.T[open_now], 0.0, _bearable(sizing, contention.nodes[open_now])
    )
    number = np.zeros(len(nodes), dtype=np.int64)  # of the replica on its node
    if sizing.anti_affinity.shares_nodes:
        most = len(request.efficiencies) - len(sizing.replicas)
        room = np.minimum((ledger.free_cores[nodes] + ROUNDING) // request.all_cores.min(), most)
        room = np.minimum(room, most_of_size.max(axis=1, initial=0.0))
        repeats = np.maximum(room.astype(np.int64), 1)
        number = np.concatenate([np.arange(count) for count in repeats.tolist()] or [number])
        nodes, loss = np.repeat(nodes, repeats), np.repeat(loss, repeats, axis=0)
        most_of_size = np.repeat(most_of_size, repeats, axis=0)
    # Replicas of one node are supposed to be of one size here.
    fits = ledger.free_cores[nodes][:, None] >= (number + 1)[:, None] * request.all_cores - ROUNDING
    fits &= ledger.free_memory_gb[nodes][:, None] >= (number + 1)[:, None] * request.memory_gb - ROUNDING
    fits &= (number + 1)[:, None] <= most_of_size if sizing.anti_affinity.shares_nodes else most_of_size > 0
    classes = ledger.cluster.class_of[nodes]
    common = request.base_deviation**2 + float(np.median(request.count_deviation)) ** 2
    own = common + request.size_deviation**2 + request.class_deviation[:, None] ** 2
    sure = np.array([1.0 + request.caution.headroom(math.sqrt(value)) for value in own.ravel().tolist()])
    left = 1.0 - np.maximum(loss, request.caution.later_loss)
    cost = request.cost[:, classes].T * request.work
    if dearer is not None:
        cost = cost * dearer[nodes][:, None]
    there, kept = sum(sizing.rate(place) for place in range(len(sizing.replicas))), len(sizing.replicas)
    groups = nodes if not sizing.anti_affinity.closes_other_nodes else ledger.cluster.zones[nodes]
    if sizing.anti_affinity.shares_nodes:
        groups = np.arange(len(nodes))
    needed = request.required / request.efficiency[kept:] - there
    needed[: max(0, request.workload.min_nodes - kept - 1)] = np.inf
    return PlainOptions(
        nodes=nodes,
        groups=np.asarray(groups, dtype=np.int64),
        fits=fits,
        cost=np.where(fits, cost, np.inf),
        worth=np.where(fits, (request.rate / sure.reshape(own.shape).T)[:, classes].T * left, 0.0),
        needed=needed,
    )


def plain_candidates(options: PlainOptions) -> list[tuple[Ints, Ints]]:
    """Positions of nodes and sizes that reach the target, by price and number of replicas, the cheapest."""
    per = options.cost[options.fits] / np.maximum(options.worth[options.fits], 1e-300)
    prices = np.geomspace(PRICE_RANGE[0] * per.min(), PRICE_RANGE[1] * per.max(), PRICES)
    value = options.cost - prices[:, None, None] * options.worth
    size = value.argmin(axis=2)
    value = np.take_along_axis(value, size[:, :, None], axis=2)[:, :, 0]
    order = np.argsort(value, axis=1, kind="stable")
    if len(np.unique(options.groups)) < len(options.groups):
        order = np.array([_first_of_groups(row, options.groups) for row in order])
    order = order[:, : len(options.needed)]
    sizes = np.take_along_axis(size, order, axis=1)
    worth = np.cumsum(options.worth[order, sizes], axis=1)
    cost = np.cumsum(options.cost[order, sizes], axis=1)
    cost[worth < options.needed[: order.shape[1]] * (1 - ROUNDING)] = np.inf
    found = []
    # The cheapest of each number of replicas, as another number may gain more by swaps.
    best = cost.argmin(axis=0)
    numbers = np.argsort(cost[best, np.arange(cost.shape[1])], kind="stable")[:MAX_CANDIDATES]
    for last in numbers.tolist():
        row = int(best[last])
        if np.isfinite(cost[row, last]):
            found.append((order[row, : last + 1], sizes[row, : last + 1]))
    return found


def _first_of_groups(order: Ints, groups: Ints) -> Ints:
    """The order, with the first position of each group only."""
    _, first = np.unique(groups[order], return_index=True)
    return order[np.sort(first)]


def plain_swapped(options: PlainOptions, places: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """The choice after swaps of one replica for a cheaper one, while the target is reached."""
    places, sizes = places.copy(), sizes.copy()
    needed = float(options.needed[len(places) - 1]) * (1 - ROUNDING)
    for _ in range(MAX_SWAPS):
        cost, worth = options.cost[places, sizes], options.worth[places, sizes]
        spare = worth.sum() - needed
        saved = cost[:, None, None] - options.cost
        groups = options.groups[places]
        own = options.groups[None, :] == groups[:, None]
        allowed = (own | ~own.any(axis=0))[:, :, None] & (worth[:, None, None] - options.worth <= spare)
        saved = np.where(allowed, saved, -np.inf)
        at = int(saved.argmax())
        if saved.flat[at] <= MIN_GAIN:
            break
        one, place, size = np.unravel_index(at, saved.shape)
        places[one], sizes[one] = place, size
    return places, sizes
