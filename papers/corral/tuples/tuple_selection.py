"""Choice among tuples of slots and bandwidth: the one that leaves the tree best balanced, and its rivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from papers.corral.tuples.rack_tree import RackTree, TreeReservation

SelectionPolicy = Literal["balanced", "random", "time", "base", "fastest"]


@dataclass(frozen=True)
class TupleOffer:
    """Slots and bandwidth that meet a request.

    Attributes:
        size: number of slots, 1 or more.
        bandwidth: bandwidth between them.
        time_s: completion time with them, seconds.
    """

    size: int
    bandwidth: float
    time_s: float


@dataclass(frozen=True)
class TupleChoice:
    """Chosen tuple, where it is reserved, and its imbalance."""

    offer: TupleOffer
    reservation: TreeReservation
    imbalance: float


def select_tuple(
    tree: RackTree,
    offers: Sequence[TupleOffer],
    policy: SelectionPolicy,
    chance: np.random.Generator,
    *,
    exact: bool = True,
) -> TupleChoice | None:
    """Choose a tuple and reserve it; None, with nothing reserved, where none fits.

    There are five policies: `balanced` takes the smallest imbalance, `time` the smallest imbalance times
    time, `random` the first that fits of a random order, `base` the first offer alone, `fastest` the quickest
    alone. Ties go to fewer slots, then to less bandwidth.

    Args:
        chance: source of the random order.
        exact: whether a tuple fits wherever it can, or where the published search finds room.
    """
    if policy == "base":
        tried = list(offers[:1])
    elif policy == "fastest":
        tried = [min(offers, key=lambda one: (one.time_s, one.size, one.bandwidth))] if offers else []
    elif policy == "random":
        tried = [offers[place] for place in chance.permutation(len(offers))]
    else:
        tried = sorted(offers, key=lambda one: (one.size, one.bandwidth))
    best: TupleChoice | None = None
    best_score = np.inf
    for offer in tried:
        found = tree.reserve(offer.size, offer.bandwidth, exact=exact)
        if found is None:
            continue
        imbalance = tree.imbalance(found)
        score = imbalance * (offer.time_s if policy == "time" else 1.0)
        if score < best_score:
            best, best_score = TupleChoice(offer, found, imbalance), score
        if policy == "random":
            break
    if best is not None:
        tree.take(best.reservation)
    return best
