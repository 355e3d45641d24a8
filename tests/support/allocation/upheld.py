"""A service and best-effort work on emulated nodes, kept up by the upkeep of a real cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence

from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.live_repacking import LiveRepacking
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.schedulers.names import scheduler
from kwiken.model.nodes.nodes import Cluster as Nodes
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.layout import EmulatedNode, Layout
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.runtime.node_classes.node_limits import NodeLimits
from kwiken.upkeep.assignment import Assignment
from kwiken.upkeep.node_repacker import NodeRepacker
from kwiken.upkeep.upkeep import Upkeep

TARGET = "tests.support.services.http:service"
BESIDE = {"middle": 1, "last": 1}  # replicas of the stages that are not on nodes
RATES: dict[float, float] = {0.5: 50.0, 1: 100.0}
SPEEDS = {"quick": 1.0}


class Upheld:
    """Placed work on emulated nodes of one class, and the upkeep of what runs.

    Args:
        requests: work to place.
        nodes: the nodes.
        cores: number of cores of each node.
        service: service whose stages are placed.
        speed: speed of a node's cores, as a share of this machine's.
    """

    limits: NodeLimits

    def __init__(
        self,
        requests: Sequence[PlacementRequest],
        nodes: Nodes,
        *,
        cores: float,
        service: str = "echo",
        speed: float = 1.0,
    ) -> None:
        admissions = admit_all(requests, NodeLedger(nodes), scheduler("thrifty"))
        placement = document(nodes, admissions, scheduler="thrifty", confidence=0.5)
        self.service = service
        self.adaptation = Adaptation(requests, nodes, placement, scheduler("thrifty"))
        self.nodes = {
            node.name: EmulatedNode(node_class="quick", cores=cores, speed=speed) for node in nodes.nodes
        }
        self.workloads = {one.name: one.workload for one in requests}
        self.assignment = Assignment(workloads=self.workloads, nodes=self.nodes)
        self.said: list[str] = []

    @contextlib.asynccontextmanager
    async def up(
        self,
        target: str = TARGET,
        beside: Mapping[str, int] = BESIDE,
        *,
        unresponsive_s: float = 10.0,
    ) -> AsyncIterator[Cluster]:
        """Run the service at `target`, with replicas of its other stages beside the nodes."""
        async with NodeLimits() as limits:
            self.limits = limits
            for name, node in self.nodes.items():
                limits.add_node(name, node.limit)
            places = self.assignment.replicas(self.service, self.adaptation.keys)
            layout = Layout(limits=limits, nodes=self.nodes, replicas=places)
            chosen = ClusterSettings(grace_s=1.0, unresponsive_s=unresponsive_s)
            async with Cluster(target, chosen, replicas=beside, layout=layout) as cluster:
                upkeep = Upkeep(
                    *(self.adaptation, self.assignment, {self.service: cluster}, limits),
                    say=self.said.append,
                    repacker=self._repacker(cluster, limits),
                )
                await upkeep.start_best_effort()
                task = asyncio.create_task(upkeep.run())
                try:
                    yield cluster
                finally:
                    task.cancel()
                    await asyncio.wait([task])
                    assert task.cancelled()

    def packer(self) -> LiveRepacking | None:
        """What repacks the nodes; None for nothing."""
        return None

    def _repacker(self, cluster: Cluster, limits: NodeLimits) -> NodeRepacker | None:
        if (packer := self.packer()) is None:
            return None
        return NodeRepacker(
            packer,
            keys=lambda: self.adaptation.keys,
            nodes=self.nodes,
            assignment=self.assignment,
            use=limits,
            clusters={self.service: cluster},
            targets_ms=self.adaptation.targets_ms,
            say=self.said.append,
        )
