"""Provision: the document that says what to reserve, rent and keep, with its costs, as versioned JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import msgspec
import numpy as np

from kwiken.allocator.provisioning.interruptions import SpotSupply
from kwiken.allocator.provisioning.load_curve import LoadCurve
from kwiken.allocator.provisioning.offers import NodeOffer, Terms
from kwiken.allocator.provisioning.payment import Payment
from kwiken.allocator.provisioning.pricing import MAX_WEEKS, Commitment, best_by_weeks
from kwiken.allocator.provisioning.retention import idle_gaps_s, keep_idle_s
from kwiken.allocator.provisioning.strategies import (
    CHOSEN,
    HINDSIGHT,
    HINDSIGHT_SPOT,
    WITH_SPOT,
    Decided,
    Market,
    Strategy,
    baselines,
    decide,
    decide_in_hindsight,
    paid,
)
from kwiken.base.parsing.documents import DocumentFormat, JsonDocument, StrictStruct

PROVISION_VERSION: Final = 1
MAX_PROVISION_BYTES: Final = 16 << 20  # of a document
_NotNegative = Annotated[float, msgspec.Meta(ge=0)]


class LoadFacts(StrictStruct, frozen=True, kw_only=True):
    """What a load curve is like.

    Attributes:
        samples: number of steps of the curve.
        step_s: length of a step, seconds.
        mean: mean number of cores.
        lowest: smallest number of cores.
        highest: largest number of cores.
        tolerant: share of the work that may be interrupted, 0 to 1.
    """

    samples: int
    step_s: _NotNegative
    mean: _NotNegative
    lowest: _NotNegative
    highest: _NotNegative
    tolerant: _NotNegative


class ChosenOffer(StrictStruct, frozen=True, kw_only=True):
    """NodeOffer that the decision uses.

    Attributes:
        node_class: class of its nodes; `class` in JSON.
        nodes: number of nodes to reserve, with those that are held; 0 for what is rented as needed.
        cores: number of cores of one node.
        price_per_hour: cost of one node in an hour.
        term_days: length of the reservation, days; 0 for what is rented.
        boot_s: time from the order to a node that serves, seconds.
        keep_idle_s: time for which an idle node is kept, seconds; 0 for reserved ones.
    """

    name: str
    node_class: str = msgspec.field(name="class")
    terms: Terms
    nodes: Annotated[int, msgspec.Meta(ge=0)] = 0
    cores: Annotated[float, msgspec.Meta(gt=0)]
    price_per_hour: Annotated[float, msgspec.Meta(gt=0)]
    term_days: Annotated[int, msgspec.Meta(ge=0)] = 0
    boot_s: _NotNegative = 0.0
    keep_idle_s: _NotNegative = 0.0


class SpotRule(StrictStruct, frozen=True, kw_only=True):
    """How work that may be interrupted is served.

    Attributes:
        expected_price: expected cost of a core of this work in an hour, with interruptions and falls back.
        wait_s: time that it waits for a spot node before it falls back to nodes on demand, seconds.
        share_up: share of the time in which some spot offer serves, 0 to 1.
        interruptions_per_hour: mean number of interruptions in an hour of service.
        leaves: whether an offer whose node lived less than ten minutes is left for half an hour.
    """

    expected_price: _NotNegative
    wait_s: _NotNegative
    share_up: _NotNegative
    interruptions_per_hour: _NotNegative
    leaves: bool


class StrategyCost(StrictStruct, frozen=True, kw_only=True):
    """Cost of one strategy on a load.

    Attributes:
        nodes: number of reserved nodes.
        hourly: cost in an hour, with reservations spread over their terms.
        reserved: part of it for reserved nodes, used or not.
        on_demand: part of it for nodes on demand.
        spot: part of it for spot nodes.
        committed_year: cost of a year at this rate, in which reservations are paid for whole terms.
        interruptions: number of interruptions of spot nodes over the load.
    """

    name: str
    nodes: int
    hourly: _NotNegative
    reserved: _NotNegative
    on_demand: _NotNegative
    spot: _NotNegative
    committed_year: _NotNegative
    interruptions: int = 0


class WeeksBest(StrictStruct, frozen=True, kw_only=True):
    """Strategy that costs least when it is committed to for some weeks or more.

    Attributes:
        from_week: first number of weeks for which it is the cheapest.
    """

    from_week: int
    strategy: str


class Provision(JsonDocument, frozen=True, kw_only=True):
    """Decision what to reserve and rent.

    Attributes:
        currency: currency of all costs.
        prices_of: day on which the prices held.
        source: where the prices are from.
        decided_on: load that the decision was made from.
        demand: shape that demand is expected to have, and why, as one phrase.
        offers: offers to use: reserved ones with their nodes, then those to rent, the cheapest core first.
        spot: how work that may be interrupted is served; None without spot.
        costs: cost of each strategy on the load of the decision.
        by_weeks: strategy that costs least by the number of weeks that are committed to.
        judged_on: later load that was paid with the same decision; None for none.
        judged: cost of each strategy on that load.
    """

    FORMAT: ClassVar = DocumentFormat(
        PROVISION_VERSION,
        MAX_PROVISION_BYTES,
        ("offers", "prices_of"),
        "is no provision; kwiken provision -o writes one",
    )

    version: int
    currency: str
    prices_of: str
    source: str
    decided_on: LoadFacts
    demand: str
    offers: list[ChosenOffer]
    spot: SpotRule | None = None
    costs: list[StrategyCost]
    by_weeks: list[WeeksBest]
    judged_on: LoadFacts | None = None
    judged: list[StrategyCost] = msgspec.field(default_factory=list)


class ProvisionStudy(msgspec.Struct, frozen=True):
    """Decision with what it was compared with, before it is written down.

    Attributes:
        payments: payments on the load of the decision, by strategy.
        judged: payments on the later load, by strategy; empty without one.
    """

    provision: Provision
    decided: Decided
    payments: dict[str, Payment]
    judged: dict[str, Payment]


def study_provision(load: LoadCurve, of: Market, *, later: LoadCurve | None = None) -> ProvisionStudy:
    """Decide on one load, and pay for it and for a later one with that decision.

    Args:
        load: history that is decided on.
        later: load that is paid with the same decision; None for none.

    Raises:
        InputError: more than a million nodes would be reserved.
    """
    decided = decide(load, of)
    strategies = baselines(load, of) | {CHOSEN: decided.plain}
    if decided.spot is not None:
        strategies[WITH_SPOT] = decided.spot
    use = of.known_use(load)
    payments = {name: paid(one, load, of, use) for name, one in strategies.items()}
    judged: dict[str, Payment] = {}
    seen: dict[str, StrategyCost] = {}
    if later is not None:
        afterwards = dict(strategies)
        best = decide_in_hindsight(later, of)
        afterwards[HINDSIGHT] = best.plain
        if best.spot is not None and decided.spot is not None:
            afterwards[HINDSIGHT_SPOT] = best.spot
        later_use = of.later_use(later)
        judged = {name: paid(one, later, of, later_use) for name, one in afterwards.items()}
        seen = {name: _cost(name, afterwards[name], one) for name, one in judged.items()}
    weeks = best_by_weeks(
        {name: _commitment(strategies[name], one) for name, one in payments.items()}, MAX_WEEKS
    )
    provision = Provision(
        version=PROVISION_VERSION,
        currency=of.prices.currency,
        prices_of=of.prices.date,
        source=of.prices.source,
        decided_on=_facts(load),
        demand=f"{decided.demand.shape.value}: {decided.demand.reason}",
        offers=_offers(decided, load, of),
        spot=None if decided.spot is None else _spot_rule(decided, of, of.known),
        costs=[_cost(name, strategies[name], one) for name, one in payments.items()],
        by_weeks=[WeeksBest(from_week=week, strategy=name) for week, name in weeks],
        judged_on=None if later is None else _facts(later),
        judged=list(seen.values()),
    )
    return ProvisionStudy(provision, decided, payments, judged)


def _facts(load: LoadCurve) -> LoadFacts:
    total = float(load.cores.sum())
    return LoadFacts(
        samples=len(load.cores),
        step_s=load.step_s,
        mean=load.mean,
        lowest=float(load.cores.min()),
        highest=float(load.cores.max()),
        tolerant=float(load.tolerant.sum()) / total if total > 0 else 0.0,
    )


def _commitment(strategy: Strategy, payment: Payment) -> Commitment:
    terms = [offer.term_days or 1 for offer, count in strategy.reserved.items() if count]
    return Commitment(payment.reserved, payment.on_demand + payment.spot, max(terms, default=1))


def _cost(name: str, strategy: Strategy, payment: Payment) -> StrategyCost:
    return StrategyCost(
        name=name,
        nodes=sum(strategy.reserved.values()),
        hourly=payment.total,
        reserved=payment.reserved,
        on_demand=payment.on_demand,
        spot=payment.spot,
        committed_year=_commitment(strategy, payment).committed(365 / 7),
        interruptions=payment.interruptions,
    )


def _offers(decided: Decided, load: LoadCurve, of: Market) -> list[ChosenOffer]:
    reserved: Mapping[NodeOffer, int] = decided.best.reserved
    found = [_chosen(offer, count, 0.0) for offer, count in reserved.items() if count]
    kept = sum(offer.cores * count for offer, count in reserved.items())
    above = np.maximum(load.cores - kept, 0.0)
    rented = list(of.prices.on_demand)
    if decided.spot is not None and of.known is not None:
        rented += of.known.offers
    for offer in rented:
        gaps_s = idle_gaps_s(np.ceil(above / offer.cores), load.step_s)
        found.append(_chosen(offer, 0, keep_idle_s(offer, gaps_s)))
    return found


def _chosen(offer: NodeOffer, nodes: int, keep_s: float) -> ChosenOffer:
    return ChosenOffer(
        name=offer.name,
        node_class=offer.node_class,
        terms=offer.terms,
        nodes=nodes,
        cores=offer.cores,
        price_per_hour=offer.price_per_hour,
        term_days=offer.term_days or 0,
        boot_s=offer.boot_s,
        keep_idle_s=keep_s,
    )


def _spot_rule(decided: Decided, of: Market, known: SpotSupply | None) -> SpotRule:
    assert known is not None
    return SpotRule(
        expected_price=decided.tolerant_price,
        wait_s=of.settings.wait_s,
        share_up=known.share_up,
        interruptions_per_hour=known.interruptions_per_hour,
        leaves=of.leaves,
    )
