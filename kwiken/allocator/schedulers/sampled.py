"""Best of a sample of nodes for each replica of a reservation, with a guarantee (Tarcil)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import ROUNDING
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.sampling.agent import qualities, sampled_kind
from kwiken.allocator.sampling.sample_size import Guarantee
from kwiken.allocator.schedulers.baselines import reservation
from kwiken.allocator.schedulers.node_queue import nodes_with_room
from kwiken.base.arrays import Floats, Ints

DEFAULT_GUARANTEE: Final = Guarantee(0.9, 0.001)


@dataclass(frozen=True)
class SampledScheduler:
    """Examines as many random nodes with room as the guarantee needs, and takes the best by prediction.

    Attributes:
        guarantee: what is promised of each replica's node.
        scanned: whether each choice is compared with a full scan, whose results go to `ranks`.
        ranks: share of the other nodes with room that are not better than each chosen one, from 0 to 1.
    """

    rng: np.random.Generator
    guarantee: Guarantee = DEFAULT_GUARANTEE
    scanned: bool = False
    ranks: list[float] = field(default_factory=list)
    name: str = "sampled"

    def place(self, sizing: Sizing) -> None:
        """Place each replica on the best node of its sample that contention allows."""
        wanted = reservation(sizing.request)
        kind = sampled_kind(sizing.request, wanted.size)
        room = nodes_with_room(sizing, wanted.size)
        while len(sizing.replicas) < wanted.count and room.size:
            places = self._drawn(len(room))
            found = qualities(kind, sizing.ledger, room[places])
            best = int(found.argmax())
            if found[best] < 0.0:  # the sample holds none that contention allows
                places, found = np.arange(len(room)), qualities(kind, sizing.ledger, room)
                best = int(found.argmax())
            if found[best] < 0.0:
                return
            if self.scanned and len(room) > 1:
                self.ranks.append(_rank(qualities(kind, sizing.ledger, room), float(found[best])))
            place = int(places[best])
            node = int(room[place])
            sizing.add(node, wanted.size)
            if sizing.anti_affinity.closes_other_nodes:
                room = room[sizing.open_nodes()[room]]
            elif not (sizing.anti_affinity.shares_nodes and sizing.takes(node, wanted.size)):
                room = np.concatenate((room[:place], room[place + 1 :]))  # no other node's room has changed

    def satisfied(self, sizing: Sizing) -> bool:
        """Whether the whole reservation was placed."""
        return len(sizing.replicas) >= reservation(sizing.request).count

    def _drawn(self, count: int) -> Ints:
        """Distinct positions among a number of nodes with room."""
        draws = self.guarantee.draws
        if count <= draws:
            return np.arange(count)
        return np.asarray(self.rng.choice(count, draws, replace=False))


def _rank(found: Floats, chosen: float) -> float:
    """Share of the other qualities that are not better than a chosen one of them."""
    return (int((found <= chosen + ROUNDING).sum()) - 1) / (len(found) - 1)
