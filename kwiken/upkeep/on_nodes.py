"""Clusters of several services on the same nodes of this machine."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.layout import EmulatedNode, Layout, ReplicaPlace
from kwiken.runtime.node_classes.node_limits import NodeLimits

Places = Mapping[str, Sequence[ReplicaPlace]]  # of replicas, by stage


@dataclass(frozen=True, kw_only=True)
class OnNodes:
    """Clusters that run on the same nodes.

    Attributes:
        clusters: running clusters by the name of their service.
        limits: limits of the nodes, which all processes of all clusters share.
    """

    clusters: dict[str, Cluster]
    limits: NodeLimits


@contextlib.asynccontextmanager
async def clusters_on_nodes(
    starts: Mapping[str, Callable[[Layout], Cluster]],
    nodes: Mapping[str, EmulatedNode],
    replicas: Mapping[str, Places],
    *,
    down: Collection[str] = (),
) -> AsyncIterator[OnNodes]:
    """Run clusters on nodes that they share; at the end all are stopped, and nothing is left of the nodes.

    Args:
        starts: by the name of each service, what makes its cluster from a layout.
        replicas: places of replicas by service and stage; a service that is missing stands on no node.
        down: nodes that are not there at the start, because they are not rented.

    Raises:
        KwikenError: a process does not start, or the limits cannot be set.
    """
    async with NodeLimits() as limits, contextlib.AsyncExitStack() as stack:
        for name, node in nodes.items():
            if name not in down:
                limits.add_node(name, node.limit)
        clusters = {}
        # One after another: a cluster is tied to the task that starts it.
        for service, start in starts.items():
            cluster = start(Layout(limits=limits, nodes=nodes, replicas=replicas.get(service, {})))
            clusters[service] = await stack.enter_async_context(cluster)
        yield OnNodes(clusters=clusters, limits=limits)
