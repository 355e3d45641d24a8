"""Rented nodes of running clusters: orders, boots and returns on the nodes that this machine emulates."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from kwiken.allocator.adaptation.load_outlook import LoadOutlook
from kwiken.allocator.adaptation.watch import Observation
from kwiken.allocator.provisioning.renting import NodeOrder, NodeRenter, NodeReturn, RentalState
from kwiken.base.errors import InputError, KwikenError
from kwiken.runtime.cluster.layout import EmulatedNode
from kwiken.runtime.node_classes.node_limits import NodeLimits
from kwiken.upkeep.rental_journal import RentalJournal

AHEAD_S: Final = 10.0  # beyond a boot: the time until a replica on the new node serves


class RentedNodes:
    """Carries out what a renter decides; every change is in the journal before it is carried out.

    Args:
        renter: decides; its clock is that of the callers.
        nodes: all nodes that could be there, as this machine emulates them.
        say: told each action with its reason, as one line.
    """

    def __init__(
        self,
        renter: NodeRenter,
        nodes: Mapping[str, EmulatedNode],
        limits: NodeLimits,
        journal: RentalJournal,
        *,
        say: Callable[[str], None],
    ) -> None:
        self.renter = renter
        self._nodes = nodes
        self._limits = limits
        self._journal = journal
        self._say = say
        self._outlooks: dict[str, LoadOutlook] = {}

    def booted(self, now_s: float) -> list[str]:
        """Nodes that became ready and can be used; one that cannot be emulated is given back.

        Args:
            now_s: moment on a monotonic clock, seconds.
        """
        found = []
        for node in self.renter.booted(now_s):
            try:
                with contextlib.suppress(InputError):  # it is there still
                    self._limits.add_node(node, self._nodes[node].limit)
            except KwikenError as error:
                self.give_back(NodeReturn(node, f"it did not boot: {error}"), now_s)
                continue
            self._say(f"{node} is ready")
            found.append(node)
        if found:
            self._journal.write(self.renter, now_s)
        return found

    def order(self, order: NodeOrder, now_s: float) -> None:
        """Rent a node; its boot begins."""
        self.renter.ordered(order, now_s)
        self._journal.write(self.renter, now_s)
        self._say(order.line)

    def give_back(self, done: NodeReturn, now_s: float) -> None:
        """Take note that a node was given back."""
        self.renter.returned(done.node, now_s, done.reason)
        self._journal.write(self.renter, now_s)
        self._say(done.line)

    def seen(self, now_s: float) -> None:
        """Write a sign of life, and the cost so far."""
        self._journal.write(self.renter, now_s)

    def end(self, now_s: float) -> None:
        """Give every rented node back; held ones are paid for by their term."""
        for one in list(self.renter.rentals):
            if one.state is not RentalState.RETURNED:
                self.renter.returned(one.node, now_s, "the services stop")
        self._journal.close(self.renter, now_s)

    def loads_ahead(self, seen: Mapping[str, Observation]) -> dict[str, float]:
        """Loads to expect once a node that is ordered now serves, requests per second by workload.

        Args:
            seen: measurements of each workload's service in this window, by workload.
        """
        boot_s = max((one.boot_s for one in self.renter.offers), default=0.0)
        ahead = {}
        for name, one in seen.items():
            outlook = self._outlooks.setdefault(name, LoadOutlook())
            outlook.observe(one.arrived, one.lasted_s)
            ahead[name] = outlook.expected_per_s(boot_s + AHEAD_S)
        return ahead
