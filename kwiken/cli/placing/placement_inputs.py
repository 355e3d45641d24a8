"""Placement of services: the nodes that this machine emulates, and the places of replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kwiken.apps.console.output import note, read_text
from kwiken.base.errors import InputError
from kwiken.cli.shared.document_sizes import MAX_NODES_FILE, MAX_PLACEMENT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kwiken.allocator.adaptation.adaptation import Adaptation
    from kwiken.allocator.adaptation.live_repacking import LiveRepackSettings
    from kwiken.allocator.provisioning.renting import NodeRenter
    from kwiken.model.nodes.nodes import Cluster
    from kwiken.model.nodes.placement import Placement
    from kwiken.model.service.service import Service
    from kwiken.runtime.cluster.layout import EmulatedNode, ReplicaPlace
    from kwiken.upkeep.assignment import Assignment


@dataclass(frozen=True)
class Placed:
    """Nodes and replicas of some services in a placement, and the upkeep of their targets.

    Attributes:
        nodes: nodes by name, those without replicas too.
        nodes_file: path of the document of nodes; None where there is none.
        adaptation: keeps the targets; None to keep the replicas as they are.
        assignment: which replica is which one of the adaptation; None without one.
        renter: rents and gives back nodes; None where all nodes are there.
        currency: currency of what is rented; empty without a renter.
        repack: how replicas are repacked; None to repack never.
    """

    nodes: Mapping[str, EmulatedNode]
    replicas: Mapping[str, Mapping[str, list[ReplicaPlace]]]
    nodes_file: str | None
    adaptation: Adaptation | None = None
    assignment: Assignment | None = None
    renter: NodeRenter | None = None
    currency: str = ""
    repack: LiveRepackSettings | None = None


def read_placement_inputs(placement_file: str, nodes_file: str | None, services: Sequence[Service]) -> Placed:
    """Read a placement for some services, and the speeds of its nodes.

    Args:
        nodes_file: path of the document of nodes; None for nodes as fast as this machine.

    Raises:
        InputError: the files do not fit each other or a service; names the file and the field.
    """
    from kwiken.model.nodes.document import nodes_from_toml
    from kwiken.model.nodes.placement import Placement

    placement = Placement.from_json(read_text(placement_file, MAX_PLACEMENT), where=placement_file)
    replicas = {one.name: _replicas(placement, one, placement_file) for one in services}
    cluster = None
    if nodes_file is not None:
        cluster = nodes_from_toml(read_text(nodes_file, MAX_NODES_FILE), where=nodes_file)
    else:
        note("note: without --nodes every node is as fast as this machine")
    return Placed(_nodes(placement, cluster, placement_file, nodes_file), replicas, nodes_file)


def _replicas(placement: Placement, service: Service, where: str) -> dict[str, list[ReplicaPlace]]:
    from kwiken.runtime.cluster.layout import ReplicaPlace

    check_stages([(one.name, one.service, one.stage) for one in placement.workloads], service, where)
    replicas: dict[str, list[ReplicaPlace]] = {}
    for one in placement.workloads:
        if one.service != service.name:
            continue
        replicas.setdefault(one.stage, []).extend(
            ReplicaPlace(found.node, found.cores + found.reissue_cores + found.catch_up_cores)
            for found in one.replicas
        )
    for stage, places in replicas.items():
        if not places:
            raise InputError(
                f"stage {stage!r} has no replica, since its workload waits; place it on more nodes",
                where=where,
            )
    if missing := [stage for stage in service.stages if stage not in replicas]:
        note(
            f"note: {service.name}: not in the placement, and so on no node and without limits: "
            f"{', '.join(missing)}"
        )
    return replicas


def check_stages(workloads: Sequence[tuple[str, str, str]], service: Service, where: str) -> None:
    """Check that workloads which name a service name stages of it, and that there is one.

    Args:
        workloads: name, service and stage of each workload.
        where: path of the document, for errors.

    Raises:
        InputError: names the workload and the stages that there are.
    """
    if not any(name == service.name for _, name, _ in workloads):
        known = sorted({name for _, name, _ in workloads if name})
        raise InputError(
            f"no workload is a stage of service {service.name!r}; it has workloads of "
            f"{', '.join(known) or 'no service'}",
            where=where,
        )
    for place, (name, of, stage) in enumerate(workloads):
        if of == service.name and stage not in service.stages:
            raise InputError(
                f"workloads[{place}].stage: {name!r} is for stage {stage!r}, and {service.name!r} has "
                f"{', '.join(service.stages)}",
                where=where,
            )


def _nodes(
    placement: Placement, cluster: Cluster | None, placement_file: str, nodes_file: str | None
) -> dict[str, EmulatedNode]:
    from kwiken.runtime.cluster.layout import EmulatedNode

    speeds = played_speeds(cluster, nodes_file) if cluster is not None else {}
    for place, node in enumerate(placement.nodes):
        if cluster is not None and node.name not in cluster.index_of:
            raise InputError(
                f"nodes[{place}].name: {node.name!r} is not in {nodes_file}", where=placement_file
            )
    return {
        node.name: EmulatedNode(
            node_class=node.node_class, cores=node.cores, speed=speeds.get(node.node_class, 1.0)
        )
        for node in placement.nodes
    }


def played_speeds(cluster: Cluster, nodes_file: str | None) -> dict[str, float]:
    """Speed of each class as a share of the fastest one's, which is as fast as this machine.

    Args:
        nodes_file: path of their document, for errors.

    Raises:
        InputError: a class has a speed and another one has none.
    """
    known = {one.name: one.speed for one in cluster.classes if one.speed is not None}
    for place, one in enumerate(cluster.classes):
        if known and one.speed is None:
            raise InputError(
                f"classes[{place}].speed: is missing; give every class one, so that this machine can play it",
                where=nodes_file,
            )
    fastest = max(known.values(), default=1.0)
    return {one.name: known.get(one.name, fastest) / fastest for one in cluster.classes}
