"""Schedulers in their plainest form: every node is looked at anew for every replica."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.allocator.placement.quality import contention_loss, contention_on
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.placement.walks import by_cost, by_quality, walk
from kwiken.allocator.sampling.agent import qualities, sampled_kind
from kwiken.allocator.schedulers.baselines import reservation
from kwiken.allocator.schedulers.default_scheduler import put
from kwiken.allocator.schedulers.sampled import DEFAULT_GUARANTEE
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Spread
from kwiken.base.arrays import Floats
from papers.worlds.schedulers.hashed_index import HashedIndex, HashFamily
from papers.worlds.schedulers.nearest_server import RADIUS, STEP
from papers.worlds.schedulers.paragon import _tolerable
from tests.support.allocation.plain_choices import priced_choices


def _free(sizing: Sizing, size: int) -> list[int]:
    """Nodes with room that anti-affinity leaves."""
    request, ledger, cluster = sizing.request, sizing.ledger, sizing.ledger.cluster
    used = {one.node for one in sizing.replicas}
    zones = {cluster.zone_of(node) for node in used}
    spread = request.workload.spread
    return [
        node
        for node in range(len(cluster.nodes))
        if ledger.fits(node, float(request.all_cores[size]), float(request.memory_gb[size]))
        and not (spread is Spread.NODE and node in used)
        and not (spread is Spread.ZONE and cluster.zone_of(node) in zones)
    ]


def _fill(sizing: Sizing, chosen: Callable[[list[int], int], int]) -> None:
    wanted = reservation(sizing.request)
    while len(sizing.replicas) < wanted.count and (nodes := _free(sizing, wanted.size)):
        sizing.add(chosen(nodes, wanted.size), wanted.size)


def least_loaded(sizing: Sizing) -> None:
    ledger = sizing.ledger

    def chosen(nodes: list[int], size: int) -> int:
        share = [ledger.free_cores[node] / ledger.cluster.cores[node] for node in nodes]
        return max(zip(share, ledger.free_memory_gb[nodes], [-n for n in nodes], nodes, strict=True))[-1]

    _fill(sizing, chosen)


def heterogeneity_only(sizing: Sizing) -> None:
    classes = sizing.ledger.cluster.class_of
    _fill(sizing, lambda nodes, size: nodes[int(np.argmax(sizing.request.rate[size, classes[nodes]]))])


def paragon(sizing: Sizing, *, by_class: bool = True, kept: float = 0.0) -> None:
    request, ledger = sizing.request, sizing.ledger

    def chosen(nodes: list[int], size: int) -> int:
        rate = request.rate[size, ledger.cluster.class_of[nodes]]
        at = slice(None), size, ledger.cluster.class_of[nodes]
        spare = np.minimum(ledger.slack[:, nodes], 1.0) - request.all_pressure[at] - kept
        margin = request.tolerance[at] - kept - np.minimum(ledger.pressure[:, nodes], 1.0)
        fine = np.all((spare >= -ROUNDING) & (margin >= -ROUNDING), axis=0)
        if not fine.any():
            fine = _tolerable(spare, request.caused) & _tolerable(margin, -request.tolerated)
        if not fine.any():
            fine = np.ones(len(nodes), dtype=np.bool_)
        if by_class:
            fine &= rate >= rate[fine].max() * (1 - ROUNDING)
        violation = np.maximum(-spare, 0) + np.maximum(-margin, 0)
        distance = (np.abs(spare) + np.abs(margin) + 10 * violation).sum(axis=0)
        distance[~fine] = np.inf
        # Sums of other lengths may round otherwise; of equal distances the first node counts.
        return nodes[int(np.flatnonzero(distance <= distance.min() * (1 + ROUNDING))[0])]

    _fill(sizing, chosen)


def sampled(sizing: Sizing, rng: np.random.Generator) -> None:
    """The best of a sample of the nodes with room; of all of them where the sample holds none."""
    wanted, draws = reservation(sizing.request), DEFAULT_GUARANTEE.draws
    kind = sampled_kind(sizing.request, wanted.size)
    while len(sizing.replicas) < wanted.count and (nodes := _free(sizing, wanted.size)):
        room = np.array(nodes)
        for drawn in (rng.choice(room, draws, replace=False) if len(room) > draws else room, room):
            found = qualities(kind, sizing.ledger, drawn)
            if found.max() >= 0:
                break
        else:
            return
        sizing.add(int(drawn[found.argmax()]), wanted.size)


def hashed(sizing: Sizing) -> None:
    """The walk over an index of every class that is built anew for each replica (LSH, section 2.7)."""
    request, ledger = sizing.request, sizing.ledger
    wanted = reservation(request)
    needs = np.concatenate((1.0 - request.tolerated, np.minimum(request.caused, 1.0)))
    if request.workload.best_effort:
        needs[: len(SOURCES)] = -np.inf
    classes = np.argsort(-request.rate[wanted.size], kind="stable").tolist()
    while len(sizing.replicas) < wanted.count:
        points = np.concatenate((1.0 - ledger.pressure, np.minimum(ledger.slack, 1.0))).T
        fits = np.all(points >= needs - ROUNDING, axis=1)
        fitting = {node for node in _free(sizing, wanted.size) if fits[node]}
        found = (_nearest(sizing, one, np.maximum(needs, 0.0), points, fitting) for one in classes)
        if not (nodes := next((some for some in found if some), [])):
            return
        share = 1e-6 * ledger.free_cores[nodes] / ledger.cluster.cores[nodes]
        loose = (points[nodes] - np.maximum(needs, 0.0)).sum(axis=1) + share
        sizing.add(nodes[int(np.argmin(loose))], wanted.size)


def _nearest(sizing: Sizing, node_class: int, at: Floats, points: Floats, fitting: set[int]) -> list[int]:
    """Servers of a class that fit, of the first step that finds any, nearest first; at last all that fit."""
    index = HashedIndex(HashFamily(2 * len(SOURCES), RADIUS))
    members = np.flatnonzero(sizing.ledger.cluster.class_of == node_class).tolist()
    for node in members:
        index.add(node, points[node])
    while True:
        at = np.minimum(at + STEP, 1.0)
        if near := [node for node, _ in index.query(at) if node in fitting]:
            return near
        if (at >= 1.0).all():
            return [node for node in members if node in fitting]


def thrifty(sizing: Sizing) -> None:
    """Quasar's walk, walks by cost for each largest size, and priced choices: the cheapest that meets it."""
    request, kept = sizing.request, len(sizing.replicas)
    best: tuple[tuple[bool, float], list[tuple[int, int]]] = ((False, 0.0), [])
    ranks = [(by_quality, None), *((by_cost, n) for n in reversed(range(len(request.cores))))]
    ways: list[Callable[[], None]] = [partial(walk, sizing, rank, largest) for rank, largest in ranks]
    choices = priced_choices(sizing, contention_on(request, sizing.ledger))
    for way in ways + [partial(put, sizing, choice) for choice in choices]:
        way()
        found = sizing.forecast()
        met = found.met and request.required > 0
        if (worth := (met, -sizing.cost if met else found.performance)) > best[0]:
            best = worth, [(one.node, one.size) for one in sizing.replicas[kept:]]
        sizing.clear(kept)
    for node, size in best[1]:
        sizing.add(node, size)
    if not sizing.forecast().met:
        sizing.clear(kept)
        walk(sizing, by_quality)


def performance(sizing: Sizing) -> float:
    """Predicted performance of all replicas, from nothing but the ledger and the request."""
    request, ledger = sizing.request, sizing.ledger
    count = len(sizing.replicas)
    total = 0.0
    for replica in sizing.replicas:
        node_class = int(ledger.cluster.class_of[replica.node])
        at = slice(None), replica.size, node_class
        outside = np.maximum(ledger.pressure[:, replica.node] - request.pressure[at], 0.0)
        loss = float(contention_loss(outside[:, None], request.tolerance[at]).max())
        kept_free = 0.0 if request.workload.best_effort else request.caution.later_loss
        factor = np.exp(request.corrections.get((replica.size, count, node_class), 0.0))
        total += request.rate[replica.size, node_class] * factor * (1 - max(loss, kept_free))
    return float(request.efficiency[count - 1]) * total if count else 0.0
