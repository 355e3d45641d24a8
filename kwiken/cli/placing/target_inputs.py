"""Inputs of `kwiken up` that keeps targets: nodes, workloads, predictions, and a placement if given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from kwiken.allocator.adaptation.adaptation import Adaptation
from kwiken.allocator.adaptation.live_repacking import LiveRepackSettings
from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.placement_document import document
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.provisioning.offers import prices_from_toml
from kwiken.allocator.provisioning.renting import NodeRenter
from kwiken.allocator.schedulers.names import scheduler
from kwiken.allocator.workloads.profile import WorkloadProfile, profiles_from_json
from kwiken.allocator.workloads.workload import Workload, workloads_from_toml
from kwiken.apps.console.output import note, read_text
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.placing.placement_inputs import Placed, check_stages, played_speeds
from kwiken.cli.shared.document_sizes import MAX_NODES_FILE, MAX_PLACEMENT, MAX_PROFILES, MAX_WORKLOADS_FILE
from kwiken.model.nodes.document import nodes_from_toml
from kwiken.model.nodes.nodes import Cluster
from kwiken.model.nodes.placement import Placement
from kwiken.runtime.cluster.layout import EmulatedNode, ReplicaPlace
from kwiken.upkeep.assignment import Assignment

if TYPE_CHECKING:
    from kwiken.allocator.provisioning.offers import PriceList
    from kwiken.model.nodes.nodes import Node
    from kwiken.model.service.service import Service

CONFIDENCE: Final = 0.95  # as `kwiken place` has by default
SCHEDULER: Final = "thrifty"
SAME_CORES: Final = 0.001  # Kubernetes counts in thousandths of a core
MAX_PRICES: Final = 4 * MIB


@dataclass(frozen=True)
class Standing:
    """What stands on nodes already.

    Attributes:
        replicas: places of replicas, by stage of the one service.
        learned: factor of need over the predicted one, by stage, as an earlier process learned it.
        free_cores: by node, cores that those replicas have or could have; a node that is missing is free.
    """

    replicas: Mapping[str, Sequence[ReplicaPlace]] = field(default_factory=dict)
    learned: Mapping[str, float] = field(default_factory=dict)
    free_cores: Mapping[str, float] = field(default_factory=dict)


NOTHING: Final = Standing()


def read_target_inputs(
    nodes_file: str,
    workloads_file: str,
    profiles_file: str,
    placement_file: str | None,
    services: Sequence[Service],
    *,
    service_targets_ms: Mapping[str, float],
    prices_file: str | None = None,
    found_nodes: Sequence[Node] | None = None,
    repack_s: float | None = None,
    dial: float | None = None,
    standing: Standing = NOTHING,
) -> Placed:
    """Read files, and place what is not placed yet.

    Args:
        placement_file: path of a placement to start from; None to place now.
        services: services whose stages are kept at their targets; best-effort work is placed beside them.
        service_targets_ms: p99 latency to keep of whole services, milliseconds, by name.
        prices_file: path of the offers by which nodes are rented; None to have all nodes.
        found_nodes: nodes that there are, in place of the document's, of which the classes are used; None for
            the document's.
        repack_s: seconds from one repacking to the next; None to repack never.
        dial: dial of the repacking, from 0 to 10; None to follow the burn rate.
        standing: what stands on the nodes already, and stays where it meets the targets.

    Raises:
        InputError: the files do not fit each other or a service, or a workload has no room.
    """
    cluster, requests = requests_of(nodes_file, workloads_file, profiles_file, services, found_nodes)
    wanted = [one.workload for one in requests]
    names = {service.name for service in services}
    others = _others(cluster, standing)
    placement = _placement(placement_file, requests, cluster, standing, others)
    adaptation = Adaptation(requests, cluster, placement, scheduler(SCHEDULER), service_targets_ms)
    by_stage = standing.learned
    learned = {one.name: by_stage[one.stage] for one in wanted if one.stage in by_stage}
    adaptation.resume(learned, others)
    assignment = Assignment(workloads={one.name: one for one in wanted}, nodes=_nodes(cluster, nodes_file))
    _check_room(adaptation, wanted, workloads_file, nodes_may_come=found_nodes is not None)
    renter, currency = None, ""
    if prices_file is not None:
        prices = prices_from_toml(read_text(prices_file, MAX_PRICES), where=prices_file)
        renter, currency = _renter(prices, prices_file, cluster, adaptation, wanted), prices.currency
    replicas = {name: assignment.replicas(name, adaptation.keys) for name in sorted(names)}
    repack = None
    if repack_s is not None:
        movable = frozenset(one.name for one in wanted if one.stage or (one.best_effort and one.command))
        repack = LiveRepackSettings(every_s=repack_s, dial=dial, movable=movable)
    return Placed(assignment.nodes, replicas, nodes_file, adaptation, assignment, renter, currency, repack)


def requests_of(
    nodes_file: str,
    workloads_file: str,
    profiles_file: str,
    services: Sequence[Service],
    found_nodes: Sequence[Node] | None = None,
) -> tuple[Cluster, list[PlacementRequest]]:
    """Read files without placing anything; returns the nodes, and what is to be placed.

    Raises:
        InputError: the files do not fit each other or a service; names the file and the field.
    """
    cluster = nodes_from_toml(read_text(nodes_file, MAX_NODES_FILE), where=nodes_file)
    if found_nodes is not None:
        cluster = _with_nodes(cluster, found_nodes, nodes_file)
    workloads = workloads_from_toml(read_text(workloads_file, MAX_WORKLOADS_FILE), where=workloads_file)
    for service in services:
        check_stages([(one.name, one.service, one.stage) for one in workloads], service, workloads_file)
    names = {service.name for service in services}
    wanted = [one for one in workloads if one.service in names or (one.best_effort and not one.service)]
    if left := [one.name for one in workloads if one not in wanted]:
        note(f"note: of other services, and so neither started nor given room: {', '.join(left)}")
    profiles = profiles_by_name(read_text(profiles_file, MAX_PROFILES), where=profiles_file)
    for one in wanted:
        if one.name not in profiles:
            raise InputError(
                f"has no profile of {one.name!r}, but {', '.join(profiles)}", where=profiles_file
            )
    played_speeds(cluster, nodes_file)  # raises for a class without one
    caution = Caution(confidence=CONFIDENCE)
    return cluster, [request_for(one, profiles[one.name], cluster, caution) for one in wanted]


def profiles_by_name(text: str, *, where: str) -> dict[str, WorkloadProfile]:
    """Profiles by the name of their workload; a note names those of before, without a reference class."""
    profiles = {one.name: one for one in profiles_from_json(text, where=where)}
    old = [one.name for one in profiles.values() if not one.reference_class and one.caused.mean.any()]
    if old:
        note(
            f"note: {where} states no reference class, so pressure is scaled by size and load, and taken as "
            f"alike on every class; classify again: {', '.join(old)}"
        )
    return profiles


def refuse_best_effort(workloads: Sequence[Workload], where: str) -> None:
    """Refuse work without a target, which an upkeep of Kubernetes does not run.

    Raises:
        InputError: names the work.
    """
    if work := [one.name for one in workloads if one.best_effort]:
        raise InputError(
            f"best-effort work has its own Deployments in Kubernetes; leave out {', '.join(work)}",
            where=where,
        )


def _with_nodes(cluster: Cluster, found: Sequence[Node], where: str) -> Cluster:
    """Classes of a document with other nodes; nodes of other classes are left out."""
    known = {one.name for one in cluster.classes}
    left = sorted({one.node_class or "no class" for one in found if one.node_class not in known})
    if left:
        note(f"note: {where} has no class of these nodes, which are not used: {', '.join(left)}")
    nodes = tuple(one for one in found if one.node_class in known)
    if not nodes:
        raise InputError(
            f"no node is of one of its classes ({', '.join(sorted(known))}); a node's class is its label "
            "kwiken/class, or else node.kubernetes.io/instance-type",
            where=where,
        )
    return Cluster(cluster.classes, nodes)


def _renter(
    prices: PriceList,
    where: str,
    cluster: Cluster,
    adaptation: Adaptation,
    wanted: Sequence[Workload],
) -> NodeRenter:
    """What rents nodes; those that are not there get no replicas, and best-effort work leaves them."""
    import time

    now_s = time.monotonic()
    targeted = {one.name for one in wanted if not one.best_effort}
    used = {node for name in targeted for _, node, _ in adaptation.keys[name]}
    renter = NodeRenter(cluster, prices, used, now_s, where=where)
    adaptation.nodes_lost(renter.down, now_s)
    return renter


def _others(cluster: Cluster, standing: Standing) -> dict[str, float]:
    """Number of cores by node that its class has and that nothing here can use."""
    cores = {one.name: one.cores for one in cluster.classes}
    return {
        node.name: max(0.0, cores[node.node_class] - standing.free_cores[node.name])
        for node in cluster.nodes
        if node.name in standing.free_cores
    }


def _running(
    requests: Sequence[PlacementRequest], ledger: NodeLedger, standing: Standing
) -> Iterator[Sizing]:
    """Replicas that stand already, of sizes that the predictions know."""
    for request in requests:
        sizing = Sizing(request, ledger)
        for place in standing.replicas.get(request.workload.stage, ()):
            node = ledger.cluster.index_of.get(place.node)
            sizes = np.flatnonzero(np.abs(request.all_cores - place.cores) <= SAME_CORES)
            if node is None or not sizes.size or len(sizing.replicas) == len(request.efficiency):
                continue
            size = int(sizes[0])
            if ledger.fits(node, float(request.all_cores[size]), float(request.memory_gb[size])):
                sizing.add(node, size)
        yield sizing


def _placement(
    file: str | None,
    requests: Sequence[PlacementRequest],
    cluster: Cluster,
    standing: Standing,
    others: Mapping[str, float],
) -> Placement:
    if file is not None:
        return Placement.from_json(read_text(file, MAX_PLACEMENT), where=file)
    ledger = NodeLedger(cluster)
    running = list(_running(requests, ledger, standing))
    for node, cores in others.items():
        ledger.occupy(cluster.index_of[node], cores)
    admissions = admit_all(requests, ledger, scheduler(SCHEDULER), running)
    return document(cluster, admissions, scheduler=SCHEDULER, confidence=CONFIDENCE)


def _nodes(cluster: Cluster, where: str) -> dict[str, EmulatedNode]:
    speeds, classes = played_speeds(cluster, where), {one.name: one for one in cluster.classes}
    return {
        node.name: EmulatedNode(
            node_class=node.node_class,
            cores=classes[node.node_class].cores,
            speed=speeds[node.node_class],
        )
        for node in cluster.nodes
    }


def _check_room(
    adaptation: Adaptation, wanted: Sequence[Workload], where: str, *, nodes_may_come: bool
) -> None:
    """Refuse to start a stage without a replica where no node is to come; say what falls short."""
    for one in wanted:
        if one.best_effort:
            continue
        performance, needed = adaptation.performance(one.name)
        if not adaptation.keys[one.name] and not nodes_may_come:
            raise InputError(
                f"workload {one.name!r} has no room; kwiken place says the nearest target that has",
                where=where,
            )
        if performance < needed:
            note(f"note: {one.name} needs {needed:.4g}/s, and is predicted to reach {performance:.4g}/s")
