"""Payment for a load with a number of reserved nodes: what is rented on demand and on spot, hour by hour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kwiken.allocator.provisioning.interruptions import SpotSupply
from kwiken.allocator.provisioning.load_curve import LoadCurve
from kwiken.allocator.provisioning.offers import NodeOffer
from kwiken.base.arrays import Bools, Floats


@dataclass(frozen=True, eq=False)
class Payment:
    """Cost of a load in an hour, by part, and over time.

    Attributes:
        reserved: cost of the reserved nodes in an hour.
        on_demand: mean cost of the nodes on demand in an hour.
        spot: mean cost of the spot nodes in an hour.
        over_time: (n,) cost of each step in an hour.
        interruptions: number of interruptions of spot nodes.
        waited_core_h: work that waited for spot nodes, in units of core hours.
    """

    reserved: float
    on_demand: float
    spot: float
    over_time: Floats
    interruptions: int = 0
    waited_core_h: float = 0.0

    @property
    def total(self) -> float:
        """Cost in an hour."""
        return self.reserved + self.on_demand + self.spot


@dataclass(frozen=True, eq=False)
class SpotUse:
    """Shares of each step of a load, by how spot serves the work that may be interrupted.

    Attributes:
        served: (n,) share of the step in which a spot node serves, or in which work waits for one.
        waited: (n,) share of the step in which work waits.
        price: (n,) mean price of a spot core in an hour, the currency's unit.
        undone: (n,) work that interruptions undo, as a share of the work served.
        interruptions: (n,) number of interruptions in the step.
    """

    served: Floats
    waited: Floats
    price: Floats
    undone: Floats
    interruptions: Floats

    def expected_price(self, on_demand: float) -> float:
        """Expected price of a core of work that may be interrupted.

        Args:
            on_demand: cost of one core on demand in an hour.
        """
        if not len(self.served):
            return on_demand
        paid = self.served * (1 + self.undone) * self.price + (1 - self.served) * on_demand
        return float(paid.mean())


def spot_use(supply: SpotSupply, step_s: float, count: int, wait_s: float) -> SpotUse:
    """Use of spot nodes over the steps of a load; a supply that is shorter is repeated.

    Work waits when no node is there. After a short outage it is done on the next spot node; in one that is
    longer than the wait, all of the work moves to nodes on demand.

    Args:
        supply: which offer serves when.
        step_s: length of a step of the load, seconds.
        count: number of steps of the load.
        wait_s: longest wait for a spot node, seconds.
    """
    up = supply.serving >= 0
    length = len(up)
    waiting = _short_outages(up, wait_s / supply.step_s)
    price, undone = supply.prices_per_core, supply.lost_core_s
    mean_price = float(price[up].mean()) if up.any() else 0.0
    shown = [up, waiting, np.where(up, price, mean_price), undone / supply.step_s, supply.lost]
    # Sums up to each moment, so that the mean of any step is a difference.
    sums = [np.concatenate([[0.0], np.cumsum(one.astype(np.float64))]) for one in shown]
    edges: Floats = np.arange(count + 1, dtype=np.float64) * (step_s / supply.step_s)
    means = [_means(total, edges, length) for total in sums]
    served = np.clip(means[0] + means[1], 0.0, 1.0)
    return SpotUse(
        served=served,
        waited=means[1],
        price=means[2],
        undone=np.divide(means[3], served, out=np.zeros(count), where=served > 0),
        interruptions=means[4] * step_s / supply.step_s,
    )


def _short_outages(up: Bools, most: float) -> Bools:
    """Whether each step is in an outage of at most this many steps, which ends."""
    edges = np.flatnonzero(np.diff(up.astype(np.int8), prepend=1, append=1))
    found = np.zeros(len(up), dtype=np.bool_)
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        if last - first <= most and last < len(up):
            found[first:last] = True
    return found


def _means(total: Floats, edges: Floats, length: int) -> Floats:
    """Means between edges, in a row of values that repeats; `total` holds the sums up to each value."""
    rounds, inside = np.divmod(edges, length)
    at = rounds * total[-1] + np.interp(inside, np.arange(length + 1), total)
    found: Floats = np.diff(at) / np.diff(edges)
    return found


def pay(
    load: LoadCurve,
    reserved: dict[NodeOffer, int],
    on_demand: tuple[NodeOffer, ...],
    *,
    spot: SpotUse | None = None,
) -> Payment:
    """Pay for a load.

    Args:
        reserved: number of nodes of each reserved offer.
        on_demand: offers on demand, the cheapest core first; one or more.
        spot: use of spot for the work that may be interrupted; None for none.
    """
    count = len(load.cores)
    kept = sum(offer.cores * number for offer, number in reserved.items())
    fixed = sum(offer.price_per_hour * number for offer, number in reserved.items())
    above = np.maximum(load.cores - kept, 0.0)
    if spot is None:
        rented, spotted = _rented(above, on_demand, load.step_s), np.zeros(count)
        broken, waited = 0, 0.0
    else:
        part = np.minimum(load.tolerant, above)
        rented = _rented(above - part, on_demand, load.step_s)
        # The nodes that tolerant work falls back to come on top of those of the other work.
        rented += (1 - spot.served) * (_rented(above, on_demand, load.step_s) - rented)
        spotted = part * spot.served * (1 + spot.undone) * spot.price
        broken = round(float((spot.interruptions * (part > 0)).sum()))
        waited = float((part * spot.waited).sum()) * load.step_s / 3600.0
    return Payment(
        reserved=fixed,
        on_demand=float(rented.mean()),
        spot=float(spotted.mean()),
        over_time=fixed + rented + spotted,
        interruptions=broken,
        waited_core_h=waited,
    )


def _rented(cores: Floats, offers: tuple[NodeOffer, ...], step_s: float) -> Floats:
    """(n,) Cost in an hour of nodes on demand for some cores, boots of nodes that are added included.

    As many nodes of the cheapest core as are filled; what is left is served by the cheapest offer for that.
    """
    best = offers[0]
    full = np.floor(cores / best.cores + 1e-9)
    left = np.maximum(cores - full * best.cores, 0.0)
    need = left > 1e-9 * np.maximum(cores, 1.0)
    rest = np.min([np.ceil(left / offer.cores - 1e-9) * offer.price_per_hour for offer in offers], axis=0)
    running = full * best.price_per_hour + np.where(need, rest, 0.0)
    added = np.maximum(np.diff(running, prepend=0.0), 0.0)  # billed from the order on
    cost: Floats = running + added * best.boot_s / step_s
    return cost
