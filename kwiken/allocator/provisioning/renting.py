"""Renting of nodes for a running cluster: when a node is ordered, kept while idle, and given back. Pure."""

from __future__ import annotations

import bisect
import math
from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from scipy.special import gammaincinv

from kwiken.allocator.provisioning.offers import NodeOffer, PriceList, Terms
from kwiken.allocator.provisioning.pricing import bill
from kwiken.allocator.provisioning.retention import keep_idle_s
from kwiken.base.errors import InputError
from kwiken.model.nodes.nodes import Cluster

MAX_GAPS: Final = 200  # of each offer, that the time of keeping is learned from
HISTORY: Final = 200  # waits and releases that are kept
KEPT_S: Final = 1800.0
LEVEL: Final = 0.99  # share of the waits that are no longer than the estimate
MIN_WAITS: Final = 20  # below it the rate of releases says what to expect
MAX_WAIT_S: Final = 86_400.0


class WaitEstimator:
    """Waits for nodes of one kind, and the moments at which some were released (HCloud section 3.2)."""

    def __init__(self) -> None:
        self._waits: deque[tuple[float, float]] = deque()
        self._sorted: list[float] = []
        self._releases: deque[float] = deque(maxlen=HISTORY)

    def released(self, now_s: float) -> None:
        """Note that a node, or its room, was released.

        Args:
            now_s: moment, seconds.
        """
        self._releases.append(now_s)

    def waited(self, now_s: float, wait_s: float) -> None:
        """Note a wait that has ended.

        Args:
            now_s: moment, seconds.
            wait_s: how long it was, seconds.
        """
        if len(self._waits) == HISTORY:
            self._forget()
        self._waits.append((now_s, wait_s))
        bisect.insort(self._sorted, wait_s)

    def estimate_s(self, now_s: float, ahead: int = 0) -> float:
        """Time within which 99% of the waits end, seconds.

        With few waits it follows from the rate of releases: the time within which there are as many as jobs
        ahead, and one more, with this probability. Without a release it is a day.

        Args:
            now_s: moment, seconds.
            ahead: number of jobs that wait already.
        """
        while self._waits and self._waits[0][0] < now_s - KEPT_S:
            self._forget()
        if len(self._sorted) >= MIN_WAITS:
            return self._sorted[math.ceil(LEVEL * len(self._sorted)) - 1]
        while self._releases and self._releases[0] < now_s - KEPT_S:
            self._releases.popleft()
        if not self._releases or now_s <= self._releases[0]:
            return MAX_WAIT_S
        rate = len(self._releases) / (now_s - self._releases[0])
        # Of a Poisson process, the time of the k-th event has the gamma law of shape k.
        return min(MAX_WAIT_S, float(gammaincinv(ahead + 1, LEVEL)) / rate)

    def _forget(self) -> None:
        _, wait_s = self._waits.popleft()
        del self._sorted[bisect.bisect_left(self._sorted, wait_s)]


class RentalState(StrEnum):
    """State of a rental.

    Attributes:
        BOOTING: ordered, and not ready yet.
        READY: serves, or could.
        RETURNED: given back, or lost.
    """

    BOOTING = "booting"
    READY = "ready"
    RETURNED = "returned"


@dataclass(kw_only=True)
class Rental:
    """One time for which a node is, or was, held on an offer.

    Attributes:
        ordered_s: moment of the order, seconds.
        returned_s: moment of the return, seconds; None until then.
        idle_since_s: moment since which the node has no replica with a target, seconds; None while it has.
        reason: why the node was rented.
        ended: why it was given back; empty until then.
    """

    node: str
    offer: NodeOffer
    state: RentalState
    ordered_s: float
    returned_s: float | None = None
    idle_since_s: float | None = None
    reason: str
    ended: str = ""

    def up_s(self, now_s: float) -> float:
        """Time from the order to the return, or until now, seconds."""
        return max(0.0, (now_s if self.returned_s is None else self.returned_s) - self.ordered_s)

    def cost(self, now_s: float) -> float:
        """Cost so far, or in all."""
        if self.offer.terms is Terms.RESERVED:  # paid by its term, used or not; shown by the time of this run
            return self.offer.price_per_hour * self.up_s(now_s) / 3600.0
        return bill(self.offer, self.up_s(now_s))


@dataclass(frozen=True, slots=True)
class NodeOrder:
    """Rent a node.

    Attributes:
        reason: why, as one phrase.
    """

    node: str
    reason: str

    @property
    def line(self) -> str:
        """Action and reason as one line."""
        return f"rent {self.node}: {self.reason}"


@dataclass(frozen=True, slots=True)
class NodeReturn:
    """Give a node back.

    Attributes:
        reason: why, as one phrase.
    """

    node: str
    reason: str

    @property
    def line(self) -> str:
        """Action and reason as one line."""
        return f"give {self.node} back: {self.reason}"


class NodeRenter:
    """Nodes of a cluster that are held, rented or not there.

    Nodes of a class are held for as many as its reserved offers say, in the cluster's order. Other nodes
    that are used at the start are rented from then on; the rest is rented when room is short.

    Args:
        cluster: all nodes that could be there.
        used: names of nodes with replicas at the start.
        now_s: moment of the start, seconds.
        where: source of the prices, to name in errors.

    Attributes:
        rentals: all rentals so far, in the order of their orders.

    Raises:
        InputError: a class of nodes has no offer, an offer another number of cores, or more nodes are held
            than there are.
    """

    def __init__(
        self, cluster: Cluster, prices: PriceList, used: Collection[str], now_s: float, *, where: str
    ) -> None:
        self._offers = _offers(cluster, prices, where)
        self._class_of = {node.name: node.node_class for node in cluster.nodes}
        self._cores = {one.name: one.cores for one in cluster.classes}
        self.rentals: list[Rental] = []
        self._current: dict[str, Rental] = {}
        self._gaps: dict[str, list[float]] = {}
        self._waits: dict[str, WaitEstimator] = {}
        self._short_since: dict[str, float] = {}
        for node, offer in _held(cluster, prices, where).items():
            self._add(node, offer, RentalState.READY, now_s, "reserved")
        for name in self._class_of:
            if name in used and name not in self._current:
                rented = self._rentable(name)
                if rented is None:
                    raise InputError(
                        f"node {name!r} has replicas at the start, and class {self._class_of[name]!r} has "
                        "no offer on demand for more nodes than are held",
                        where=where,
                    )
                self._add(name, rented, RentalState.READY, now_s, "has replicas at the start")

    @property
    def offers(self) -> list[NodeOffer]:
        """Offers by which nodes are rented."""
        return list(self._offers.values())

    @property
    def down(self) -> list[str]:
        """Nodes that are not there, or not ready."""
        ready = {name for name, one in self._current.items() if one.state is RentalState.READY}
        return [node for node in self._class_of if node not in ready]

    @property
    def saved_per_hour(self) -> dict[str, float]:
        """What the return of each rented node would save an hour, by name; held nodes save nothing."""
        return {
            name: one.offer.price_per_hour
            for name, one in self._current.items()
            if one.offer.terms is not Terms.RESERVED
        }

    def cost(self, now_s: float) -> float:
        """Cost of all rentals so far.

        Args:
            now_s: moment, seconds.
        """
        return sum(one.cost(now_s) for one in self.rentals)

    def booted(self, now_s: float) -> list[str]:
        """Nodes that have become ready.

        Args:
            now_s: moment, seconds.
        """
        found = []
        for name, one in self._current.items():
            if one.state is RentalState.BOOTING and now_s >= one.ordered_s + one.offer.boot_s:
                one.state = RentalState.READY
                found.append(name)
        return found

    def observe(
        self, now_s: float, missing_cores: Mapping[str, float], occupied: Collection[str]
    ) -> list[NodeOrder | NodeReturn]:
        """Decide what to order and what to give back.

        A workload that is short waits without an order where 99% of such waits were shorter than a boot.

        Args:
            now_s: moment, seconds.
            missing_cores: number of cores that workloads lack, by workload; those with enough are left out.
            occupied: nodes that have replicas with a target.
        """
        actions: list[NodeOrder | NodeReturn] = list(self._orders(now_s, missing_cores))
        wanted = any(missing_cores.values())
        for name, one in list(self._current.items()):
            if one.state is not RentalState.READY or one.offer.terms is Terms.RESERVED:
                continue
            if name in occupied:
                if one.idle_since_s is not None:
                    self._gaps.setdefault(one.offer.name, []).append(now_s - one.idle_since_s)
                one.idle_since_s = None
                continue
            if one.idle_since_s is None:
                one.idle_since_s = now_s
            idle_s, keep_s = now_s - one.idle_since_s, self.keep_s(one.offer)
            if idle_s >= keep_s and not wanted:
                reason = f"idle for {idle_s:.0f} s, and kept for {keep_s:.0f} s"
                actions.append(NodeReturn(name, reason))
        return actions

    def ordered(self, order: NodeOrder, now_s: float) -> None:
        """Take note that an order was placed: it is billed from now on."""
        offer = self._rentable(order.node)
        assert offer is not None, "orders are for nodes that can be rented"
        self._add(order.node, offer, RentalState.BOOTING, now_s, order.reason)

    def returned(self, node: str, now_s: float, reason: str) -> None:
        """Take note that a node was given back, or lost; nothing happens if it was not rented.

        Args:
            now_s: moment, seconds.
            reason: why, as one phrase.
        """
        one = self._current.get(node)
        if one is None or one.offer.terms is Terms.RESERVED:
            return
        one.state, one.returned_s, one.ended = RentalState.RETURNED, now_s, reason
        del self._current[node]

    def keep_s(self, offer: NodeOffer) -> float:
        """Time for which an idle node of an offer is kept, seconds."""
        return keep_idle_s(offer, np.array(self._gaps.get(offer.name, [])[-MAX_GAPS:]))

    def _orders(self, now_s: float, missing_cores: Mapping[str, float]) -> list[NodeOrder]:
        for name in [name for name in self._short_since if not missing_cores.get(name)]:
            since_s = self._short_since.pop(name)
            self._waits.setdefault(name, WaitEstimator()).waited(now_s, now_s - since_s)
        coming = sum(
            self._cores[self._class_of[name]]
            for name, one in self._current.items()
            if one.state is RentalState.BOOTING
        )
        orders: list[NodeOrder] = []
        for name, cores in missing_cores.items():
            if cores <= 0:
                continue
            self._short_since.setdefault(name, now_s)
            taken = {order.node for order in orders}
            while coming < cores and (node := self._cheapest(cores - coming, taken)) is not None:
                offer = self._rentable(node)
                assert offer is not None
                wait_s = self._waits.setdefault(name, WaitEstimator()).estimate_s(now_s)
                if wait_s < offer.boot_s:
                    break
                orders.append(NodeOrder(node, f"{name} lacks {cores:.3g} cores; by {offer.name}"))
                taken.add(node)
                coming += self._cores[self._class_of[node]]
            coming -= min(coming, cores)  # the next workload has what is left
        return orders

    def _cheapest(self, cores: float, taken: Collection[str]) -> str | None:
        """Node to rent for some cores, the cheapest that has them, else that of the cheapest core."""
        choices: list[tuple[tuple[bool, float], int, str]] = []
        for node in self._class_of:
            offer = self._rentable(node)
            if node in self._current or node in taken or offer is None:
                continue
            enough = self._cores[self._class_of[node]] >= cores
            rank = (not enough, offer.price_per_hour if enough else offer.price_per_core)
            choices.append((rank, len(choices), node))
        return min(choices)[2] if choices else None

    def _rentable(self, node: str) -> NodeOffer | None:
        return self._offers.get(self._class_of[node])

    def _add(self, node: str, offer: NodeOffer, state: RentalState, now_s: float, reason: str) -> None:
        rental = Rental(node=node, offer=offer, state=state, ordered_s=now_s, reason=reason)
        self.rentals.append(rental)
        self._current[node] = rental


def _offers(cluster: Cluster, prices: PriceList, where: str) -> dict[str, NodeOffer]:
    """Cheapest offer on demand of each class."""
    found: dict[str, NodeOffer] = {}
    known = {offer.node_class: offer for offer in prices.offers}
    for one in cluster.classes:
        if one.name not in known:
            raise InputError(
                f"has no offer for class {one.name!r}; known: {', '.join(sorted(known))}", where=where
            )
        if known[one.name].cores != one.cores:
            raise InputError(
                f"offer {known[one.name].name!r} says {known[one.name].cores:g} cores, and class "
                f"{one.name!r} has {one.cores:g}",
                where=where,
            )
        of_class = [offer for offer in prices.on_demand if offer.node_class == one.name]
        if of_class:
            found[one.name] = min(of_class, key=lambda offer: offer.price_per_hour)
    return found


def _held(cluster: Cluster, prices: PriceList, where: str) -> dict[str, NodeOffer]:
    """Nodes that are reserved already, with their offers, in the cluster's order."""
    counts = Counter(node.node_class for node in cluster.nodes)
    left = {offer.name: offer.held for offer in prices.reserved}
    for offer in prices.reserved:
        if offer.held > counts[offer.node_class]:
            raise InputError(
                f"offer {offer.name!r} holds {offer.held} nodes of class {offer.node_class!r}, and there are "
                f"{counts[offer.node_class]}",
                where=where,
            )
    found: dict[str, NodeOffer] = {}
    for node in cluster.nodes:
        for offer in prices.reserved:
            if offer.node_class == node.node_class and left[offer.name] > 0:
                left[offer.name] -= 1
                found[node.name] = offer
                break
    return found
