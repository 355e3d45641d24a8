"""Admission of a job with a deadline: executors and bandwidth in time, judged on a cluster's tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.errors import InputError
from kwiken.batch.jobs.replay.predictor import Predictor
from kwiken.batch.jobs.replay.replayed_run import NetworkBounds
from kwiken.batch.racks.selection import TupleOffer
from kwiken.batch.racks.tree import RackTree
from kwiken.model.nodes.document import RackCluster

HALVINGS: Final = 14  # of the interval of bandwidths: what is left is below a thousandth of the link


@dataclass(frozen=True)
class JudgedOffer:
    """Tuple, and what reserving it would do to the tree.

    Attributes:
        offer: executors and bandwidth that meet the deadline.
        imbalance: sum of squared free shares of the slots and links that change; None where it finds no room.
        executors_left: number of executors that would still find slots; None where it finds no room.
    """

    offer: TupleOffer
    imbalance: float | None
    executors_left: int | None


def admission_tree(cluster: RackCluster, slots_each: int) -> RackTree:
    """Tree of a cluster whose slots are places for executors; links are as its slowest.

    Args:
        slots_each: number of the nodes' slots that one executor takes, 1 or more.

    Raises:
        InputError: no node has room for an executor.
    """
    order = np.argsort(cluster.rack, kind="stable")
    places = (cluster.slots // slots_each)[order]
    if places.max(initial=0) < 1:
        raise InputError(f"no node has {slots_each} free slots, which an executor takes", where="cluster")
    uplink = float(cluster.uplink_bytes_per_s.min())
    racks = len(cluster.rack_names)
    tree = RackTree(
        slots=int(places.max()),
        rack_of=cluster.rack[order],
        pod_of=np.zeros(racks, dtype=np.int64),
        machine_link=float(cluster.nic_bytes_per_s.min()),
        rack_link=uplink,
        pod_link=uplink * racks,
    )
    tree.free = places.copy()
    return tree


def offers_in_time(
    predictor: Predictor,
    deadline_ms: float,
    sizes: Sequence[int],
    link_bytes_per_s: float,
    *,
    expected: bool = False,
) -> tuple[list[TupleOffer], float]:
    """For each number of executors, the least bandwidth between them with which a job ends in time.

    Args:
        deadline_ms: completion time that is wanted, milliseconds.
        sizes: numbers of executors to try, each 1 or more.
        link_bytes_per_s: most bandwidth that an executor can get, bytes per second.
        expected: whether the expected time meets the deadline; else nineteen runs in twenty have to.

    Returns:
        The tuples, and the shortest time of all sizes with the whole link, milliseconds.
    """

    def time_ms(size: int, bandwidth: float) -> float:
        found = predictor.at(size, network=NetworkBounds(machines=size, bytes_per_s=bandwidth))
        return found.total_ms if expected else found.high_ms

    offers, nearest = [], np.inf
    for size in sizes:
        best = time_ms(size, link_bytes_per_s)
        nearest = min(nearest, best)
        if best > deadline_ms:
            continue
        low, high = 0.0, link_bytes_per_s
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if time_ms(size, middle) <= deadline_ms else (middle, high)
        needed = high if size > 1 else 0.0
        offers.append(TupleOffer(size, needed, time_ms(size, max(needed, 1.0)) / 1e3))
    return offers, float(nearest)


def judge_offers(tree: RackTree, offers: Sequence[TupleOffer]) -> list[JudgedOffer]:
    """Imbalance that each tuple would leave; nothing is reserved."""
    judged = []
    for offer in offers:
        found = tree.reserve(offer.size, offer.bandwidth)
        room = found is not None
        judged.append(
            JudgedOffer(
                offer,
                tree.imbalance(found) if found is not None else None,
                int(tree.free.sum()) - offer.size if room else None,
            )
        )
    return judged
