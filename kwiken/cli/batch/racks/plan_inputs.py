"""Racks that `kwiken batch plan` plans on: of a document, or of options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kwiken.apps.console.output import read_text
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.document_sizes import MAX_PLACEMENT

if TYPE_CHECKING:
    from kwiken.batch.racks.response import RackHardware
    from kwiken.model.nodes.document import RackCluster

MAX_CLUSTER_FILE: Final = 64 * MIB
GBPS: Final = 1e9 / 8  # bytes per second


@dataclass(frozen=True)
class PlannedCluster:
    """Equal racks to plan on.

    Attributes:
        rack: the smallest rack of the cluster in each respect, as which all are taken.
        told: sentence for users that says what the racks are.
    """

    names: tuple[str, ...]
    rack: RackHardware
    told: str


def cluster_in(path: str, beside: str | None) -> tuple[RackCluster, str]:
    """Nodes in racks of a document, without the slots that the services of a placement hold.

    Returns:
        The cluster, and the part of a sentence that says what the services hold; empty without a placement.

    Raises:
        InputError: names the file and what in it is wrong, or a rack without slots.
    """
    from kwiken.model.nodes.document import cluster_from_toml

    cluster = cluster_from_toml(read_text(path, MAX_CLUSTER_FILE), where=path)
    whole = int(cluster.slots.sum())
    if beside is not None:
        from kwiken.model.nodes.placement import Placement

        placement = Placement.from_json(read_text(beside, MAX_PLACEMENT), where=beside)
        used: dict[str, float] = {}
        for workload in placement.workloads:
            for replica in workload.replicas:
                used[replica.node] = used.get(replica.node, 0.0) + replica.cores
        cluster = cluster.without_cores(used)
    for empty in np.flatnonzero(cluster.rack_slots == 0).tolist():
        told = "the services hold all of it" if beside is not None else "give its classes slots"
        raise InputError(f"rack {cluster.rack_names[empty]!r} has no slot: {told}", where=path)
    left = int(cluster.slots.sum())
    return cluster, f"; services hold {whole - left} of {whole} slots" if beside is not None else ""


def read_cluster(path: str, beside: str | None, traffic: str | None = None) -> PlannedCluster:
    """Racks of a document, without the slots that services hold and the bandwidth that they use.

    Args:
        path: name of the document of the cluster.
        beside: name of a placement of services; None for none.
        traffic: name of a traffic model of the services; None for none.

    Raises:
        InputError: as `cluster_in`, and as `beside_traffic`.
    """
    from kwiken.batch.racks.response import RackHardware

    cluster, held = cluster_in(path, beside)
    if traffic is not None:
        from kwiken.cli.batch.racks.background import beside_traffic

        background = beside_traffic(traffic, cluster)
        cluster, held = background.cluster, f"{held}; {background.told}"
    slots = cluster.rack_slots
    rack = RackHardware(
        slots=int(slots.min()),
        machines=int(cluster.rack_sizes.min()),
        nic_bytes_per_s=float(cluster.nic_bytes_per_s.min()),
        uplink_bytes_per_s=float(cluster.uplink_bytes_per_s.min()),
    )
    sizes = (slots, cluster.rack_sizes, cluster.nic_bytes_per_s, cluster.uplink_bytes_per_s)
    unequal = any(len(set(each.tolist())) > 1 for each in sizes)
    smallest = "; racks differ, and all are planned as the smallest" if unequal else ""
    return PlannedCluster(cluster.rack_names, rack, f"{racks_text(len(slots), rack)}{held}{smallest}")


def racks_text(racks: int, rack: RackHardware) -> str:
    """Sentence that says what the racks are."""
    return (
        f"{racks} racks of {rack.machines} machines and {rack.slots} slots, links of "
        f"{rack.nic_bytes_per_s / GBPS:g} Gbit/s, uplinks of {rack.uplink_bytes_per_s / GBPS:g} Gbit/s"
    )
