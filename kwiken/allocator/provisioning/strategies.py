"""Strategies of provisioning on one load: the decision, and those to compare with (HCloud section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from kwiken.allocator.provisioning.demand_forecast import (
    DemandShape,
    ExpectedDemand,
    expected_demand,
    recent_demand,
)
from kwiken.allocator.provisioning.interruptions import (
    Recording,
    SpotSupply,
    drawn_recording,
    spot_supply,
)
from kwiken.allocator.provisioning.load_curve import S_PER_DAY, S_PER_HOUR, LoadCurve
from kwiken.allocator.provisioning.offers import NodeOffer, PriceList
from kwiken.allocator.provisioning.payment import Payment, SpotUse, pay, spot_use
from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError

PEAK_MARGIN: Final = 1.15  # of reserving for the peak (HCloud)
LONGEST_DAYS: Final = 366  # term beyond which nothing is reserved unless it is asked for
DRAWN_STEP_S: Final = 60.0
DRAWN_STEPS: Final = 20_160  # two weeks
MAX_NODES: Final = 1_000_000  # of one reservation

RESERVED_ONLY: Final = "reserved, peak + 15%"
ON_DEMAND_ONLY: Final = "on demand only"
QUANTILE: Final = "quantile reserved"
RECENT: Final = "quantile reserved, last 7 days"
CHOSEN: Final = "decided"
WITH_SPOT: Final = "decided, with spot"
HINDSIGHT: Final = "best in hindsight"
HINDSIGHT_SPOT: Final = "best in hindsight, with spot"


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


@dataclass(frozen=True, kw_only=True)
class ProvisioningSettings:
    """What a decision is made for.

    Attributes:
        longest_days: longest reservation to take, days.
        horizon_s: time ahead that demand is expected for, seconds; None for the term of the reservation.
        wait_s: longest time that work which may be interrupted waits for a spot node, seconds.
        seed: seed of interruptions that are drawn from a rate.
    """

    longest_days: int = LONGEST_DAYS
    horizon_s: float | None = None
    wait_s: float = 600.0
    seed: int = 0


@dataclass(frozen=True)
class Strategy:
    """Number of reserved nodes by offer, and what serves the load above.

    Attributes:
        spot: whether work that may be interrupted is served by spot nodes.
    """

    reserved: Mapping[NodeOffer, int]
    spot: bool = False


@dataclass(frozen=True)
class Market:
    """Offers, with the spot supply of a deciding and of a paying time.

    Attributes:
        leaves: whether a spot offer is left for a while after a short life.
    """

    prices: PriceList
    settings: ProvisioningSettings
    known: SpotSupply | None
    later: SpotSupply | None
    leaves: bool

    @cached_property
    def on_demand_price(self) -> float:
        """Cost of the cheapest core on demand in an hour."""
        return self.prices.on_demand[0].price_per_core

    @cached_property
    def reserved(self) -> NodeOffer | None:
        """NodeOffer to reserve at: the cheapest core on a term that is short enough; None for none."""
        return next(
            (one for one in self.prices.reserved if (one.term_days or 0) <= self.settings.longest_days), None
        )

    @cached_property
    def held(self) -> dict[NodeOffer, int]:
        """Nodes that are reserved already, by offer."""
        return {one: one.held for one in self.prices.reserved if one.held}

    def known_use(self, load: LoadCurve) -> SpotUse | None:
        """Use of spot over a load by what is known of interruptions when the decision is made."""
        return self._use(self.known, load)

    def later_use(self, load: LoadCurve) -> SpotUse | None:
        """Use of spot over a load that is paid later, by interruptions that the decision has not seen."""
        return self._use(self.later, load)

    def _use(self, supply: SpotSupply | None, load: LoadCurve) -> SpotUse | None:
        return (
            None if supply is None else spot_use(supply, load.step_s, len(load.cores), self.settings.wait_s)
        )

    def tolerant_price(self, load: LoadCurve) -> float:
        """Expected price of a core of work that may be interrupted, at most that of one on demand."""
        use = self.known_use(load)
        dear = self.on_demand_price
        return dear if use is None else min(dear, use.expected_price(dear))


def market(prices: PriceList, recordings: Mapping[str, Recording], settings: ProvisioningSettings) -> Market:
    """Market of a price list: the first half of the recordings is known, the second half comes later.

    Interruptions of spot offers that state a rate are drawn.

    Args:
        recordings: recording by the name of the spot offer.

    Raises:
        InputError: recordings of different step lengths.
    """
    rng = np.random.default_rng(settings.seed)
    steps = [one.step_s for one in recordings.values()]
    step_s = steps[0] if steps else DRAWN_STEP_S
    shown = dict(recordings)
    for offer in prices.spot:
        if offer.interruptions_per_hour is not None:
            shown[offer.name] = drawn_recording(offer.interruptions_per_hour, step_s, DRAWN_STEPS, rng)
    known, later = {}, {}
    for name, one in shown.items():
        half = len(one.up) // 2
        known[name], later[name] = one.part(0, half), one.part(half, len(one.up))
    dear = prices.on_demand[0].price_per_core

    def price(leaves: bool) -> float:  # noqa: FBT001 - the two rules that are compared
        supply = spot_supply(prices.spot, known, leaves=leaves)
        if supply is None:
            return dear
        use = spot_use(supply, supply.step_s, len(supply.serving), settings.wait_s)
        return use.expected_price(dear)

    leaves = price(True) <= price(False)
    seen, unseen = (spot_supply(prices.spot, half, leaves=leaves) for half in (known, later))
    return Market(prices, settings, seen, unseen, leaves)


@dataclass(frozen=True)
class Decided:
    """Decision on one load, with the demand that it expects.

    Attributes:
        plain: the best without spot.
        spot: the best with spot; None where spot does not pay, or no work may be interrupted.
        tolerant_price: expected cost of a core hour of work that may be interrupted.
    """

    demand: ExpectedDemand
    plain: Strategy
    spot: Strategy | None
    tolerant_price: float

    @property
    def best(self) -> Strategy:
        """Strategy that is decided on."""
        return self.plain if self.spot is None else self.spot


def decide(load: LoadCurve, of: Market) -> Decided:
    """Decide what to reserve from a history of load.

    There are two cases: 1. The history is as long as the term, or as the horizon that is asked for: demand is
    looked ahead for. 2. The history is shorter: a few weeks say little of a year, so the last days decide.

    Raises:
        InputError: more than a million nodes would be reserved.
    """
    offer = of.reserved
    horizon_s = of.settings.horizon_s
    if horizon_s is None:
        horizon_s = S_PER_DAY * ((offer.term_days if offer is not None else None) or 1)
    long = load.hours * S_PER_HOUR >= horizon_s
    demand = expected_demand(load, horizon_s) if long else recent_demand(load)
    return _decided(demand, load, of, of.tolerant_price(load))


def decide_in_hindsight(load: LoadCurve, of: Market) -> Decided:
    """The best fixed number of reserved nodes for a load that is known, to compare with."""
    count = len(load.cores)
    demand = ExpectedDemand(DemandShape.STEADY, load.cores, load.tolerant, np.full(count, 1 / count), "known")
    use, dear = of.later_use(load), of.on_demand_price
    price = dear if use is None else min(dear, use.expected_price(dear))
    return _decided(demand, load, of, price)


def _decided(demand: ExpectedDemand, load: LoadCurve, of: Market, tolerant_price: float) -> Decided:
    dear = of.on_demand_price
    plain = Strategy(_reserved(demand, of, OverflowPrices(dear, dear)))
    spot = None
    if tolerant_price < dear and float(load.tolerant.sum()) > 0:
        spot = Strategy(_reserved(demand, of, OverflowPrices(dear, tolerant_price)), spot=True)
    return Decided(demand, plain, spot, tolerant_price)


def _reserved(demand: ExpectedDemand, of: Market, prices: OverflowPrices) -> dict[NodeOffer, int]:
    """Nodes to reserve by offer: those that are held, and as many more as pay."""
    reserved = dict(of.held)
    offer = of.reserved
    if offer is None:
        return reserved
    kept = sum(one.cores * count for one, count in reserved.items())
    above = np.maximum(demand.cores - kept, 0.0)
    rest = ExpectedDemand(
        demand.shape, above, np.minimum(demand.tolerant, above), demand.weights, demand.reason
    )
    if float(above.max()) / offer.cores > MAX_NODES:
        raise InputError(
            f"up to {float(above.max()):.3g} cores are more than {MAX_NODES} nodes of {offer.name!r}; "
            "give offers of larger nodes",
            where="load",
        )
    if (more := nodes_to_reserve(rest, offer, prices)) > 0:
        reserved[offer] = reserved.get(offer, 0) + more
    return reserved


def baselines(load: LoadCurve, of: Market) -> dict[str, Strategy]:
    """Strategies to compare with, decided on the same load.

    Without a reserved offer there is on demand only.
    """
    offer = of.reserved
    if offer is None:
        return {ON_DEMAND_ONLY: Strategy({})}
    peak = float(load.cores.max())
    recent = recent_demand(load).cores
    return {
        RESERVED_ONLY: Strategy({offer: int(np.ceil(PEAK_MARGIN * peak / offer.cores - 1e-9))}),
        ON_DEMAND_ONLY: Strategy({}),
        QUANTILE: Strategy({offer: quantile_nodes(load.cores, offer, of.on_demand_price)}),
        RECENT: Strategy({offer: quantile_nodes(recent, offer, of.on_demand_price)}),
    }


def paid(strategy: Strategy, load: LoadCurve, of: Market, use: SpotUse | None) -> Payment:
    """Payment of a strategy for a load.

    Args:
        use: use of spot over this load; None for none.
    """
    return pay(
        load,
        dict(strategy.reserved),
        of.prices.on_demand,
        spot=use if strategy.spot else None,
    )
