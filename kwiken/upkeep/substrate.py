"""Substrate of an upkeep: the replicas of a service and their nodes, as protocols for any kind of cluster.

Two things meet these protocols: processes of this machine on nodes that it emulates (`runtime.cluster`,
`runtime.node_classes`), and pods on the nodes of Kubernetes (`upkeep.kubernetes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kwiken.model.service.service import Service
from kwiken.runtime.cluster.layout import ReplicaPlace
from kwiken.runtime.node_classes.limit import Limit


class Substrate(Protocol):
    """Replicas of one service, which can be started, resized, moved and stopped."""

    @property
    def service(self) -> Service:
        """Service that the replicas are of."""

    @property
    def places(self) -> Mapping[str, tuple[str, ReplicaPlace]]:
        """Stage and place of the replicas that have a place, by name, whether or not they run now."""

    @property
    def lost_nodes(self) -> Sequence[str]:
        """Nodes of these replicas that are lost."""

    async def status(self) -> dict[str, Any]:
        """Figures of the gateways as `runtime`; replicas have the names that they have here.

        Raises:
            KwikenError, ClientError, TimeoutError: the gateways tell nothing.
        """

    async def add_replica(self, stage: str, place: ReplicaPlace) -> str:
        """Start another replica, which then gets calls; returns its name.

        Raises:
            KwikenError: it does not start.
        """

    async def remove_replica(self, name: str) -> None:
        """Stop a replica in good order; nothing happens if there is none of this name."""

    async def resize_replica(self, name: str, cores: float) -> None:
        """Change the number of cores that a replica may use; nothing happens if there is none of this name.

        Args:
            cores: number of cores, above 0.

        Raises:
            KwikenError: the size cannot be changed.
        """

    async def drop_node(self, node: str) -> Sequence[str]:
        """Give a node up: its replicas are not restarted; returns their names."""

    def note_action(self, line: str) -> None:
        """Show an action that keeps a target where the service's state is shown."""


class Ground(Protocol):
    """Nodes that come and go, and commands of best-effort work on them."""

    def add_node(self, node: str, limit: Limit) -> None:
        """Use a node, or use it again.

        Raises:
            InputError: it is used already.
            KwikenError: it cannot be used.
        """

    async def remove_node(self, node: str) -> None:
        """Use a node no longer.

        Raises:
            InputError: there is no such node.
        """

    async def start(
        self, command: Sequence[str], *, name: str, limit: Limit | None, node: str | None, **options: Any
    ) -> object:
        """Start a command on a node.

        Args:
            limit: number of processors and speed that it may use; None for no limit.
            options: further options of the process.

        Raises:
            KwikenError: it does not start.
        """

    async def end(self, name: str) -> None:
        """End a command; nothing happens if there is none of this name."""
