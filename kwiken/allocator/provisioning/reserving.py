"""Number of nodes to reserve: the count with the least expected cost, that of overflow included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.allocator.provisioning.demand_forecast import ExpectedDemand
from kwiken.allocator.provisioning.offers import NodeOffer
from kwiken.base.arrays import Floats


@dataclass(frozen=True)
class OverflowPrices:
    """Price of one core in an hour of load above the reservation.

    Attributes:
        on_demand: price of work that cannot wait, a cost of the currency's unit.
        tolerant: expected price of work that may be interrupted, a cost of the currency's unit; at most
            `on_demand`.
    """

    on_demand: float
    tolerant: float


def nodes_to_reserve(demand: ExpectedDemand, offer: NodeOffer, prices: OverflowPrices) -> int:
    """Number of nodes of an offer that costs least on the demand that is expected.

    Without tolerant work this is the newsvendor's answer: the quantile `1 - r` of the demand, where r is the
    price of a reserved core over that of one on demand. Work that may be interrupted is reserved for at its
    own, lower price. The expected cost is convex in the count, so the first count whose successor does not
    pay is the best.

    Args:
        offer: reserved offer; its nodes are whole.
        prices: prices of the load above.
    """
    firm = demand.cores - demand.tolerant
    # A core more saves the tolerant price where all load is above it, and the difference where firm load is.
    points = np.concatenate([demand.cores, firm])
    saved = np.concatenate(
        [
            demand.weights * prices.tolerant,
            demand.weights * (prices.on_demand - prices.tolerant),
        ]
    )
    order = np.argsort(points)
    points, saved = points[order], saved[order]
    above = np.append(np.cumsum(saved[::-1])[::-1], 0.0)  # saved by a core just below each point

    def pays(node: int) -> bool:
        """Whether the node of this number, counted from 1, costs less than it saves."""
        low, high = (node - 1) * offer.cores, node * offer.cores
        inner = points[(points > low) & (points < high)]
        edges = np.concatenate([[low], inner, [high]])
        rates = above[np.searchsorted(points, edges[:-1], side="right")]
        return float((np.diff(edges) * rates).sum()) > offer.price_per_hour

    least, most = 0, int(np.ceil(points[-1] / offer.cores)) if len(points) else 0
    while least < most:  # the savings of a node fall with its number
        middle = (least + most + 1) // 2
        if pays(middle):
            least = middle
        else:
            most = middle - 1
    return least


def quantile_nodes(cores: Floats, offer: NodeOffer, on_demand_price: float) -> int:
    """Number of nodes at the quantile `1 - r` of a load as it was, for comparison.

    Args:
        cores: (n,) number of cores of the load.
        on_demand_price: cost of one core on demand in an hour.
    """
    share = max(0.0, 1.0 - offer.price_per_core / on_demand_price)
    return round(float(np.quantile(cores, share)) / offer.cores) if share > 0 else 0
