"""Racks that `kwiken batch plan` plans on, from the document of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kwiken.apps.console.output import read_text
from kwiken.base.errors import InputError
from kwiken.base.machine.files import MIB
from kwiken.cli.shared.document_sizes import MAX_PLACEMENT

if TYPE_CHECKING:
    from kwiken.base.arrays import Floats, Ints
    from kwiken.batch.racks.response import RackHardware
    from kwiken.model.nodes.document import RackCluster

MAX_CLUSTER_FILE: Final = 64 * MIB
GBPS: Final = 1e9 / 8  # bytes per second
NO_RACK: Final = -1
MIN_UNPLACED: Final = 0.01  # share of the traffic without a rack, below which it is not mentioned


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
        InputError: as `cluster_in`, and names the file of the traffic and what in it does not fit.
    """
    from kwiken.batch.racks.response import RackHardware

    cluster, held = cluster_in(path, beside)
    if traffic is not None:
        cluster, taken = _beside_traffic(traffic, cluster)
        held = f"{held}; {taken}"
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


def _beside_traffic(path: str, cluster: RackCluster) -> tuple[RackCluster, str]:
    """Take the traffic between racks off their uplinks: of each rack, that of its busiest window of the day.

    An uplink carries as much in each direction; the larger of what a rack sends and receives counts.

    Returns:
        The cluster, and the part of a sentence that says what the services take.

    Raises:
        InputError: names the file: no traffic model, one that counts calls, one whose machines are none of
            the cluster's, or more traffic than an uplink carries.
    """
    from kwiken.cli.data.traffic.reading import load_traffic

    model = load_traffic(path)
    if model.unit != "bytes":
        raise InputError("counts calls, not bytes; learn it from flows that state bytes", where=path)
    rack_of = {node.name: int(rack) for node, rack in zip(cluster.nodes.nodes, cluster.rack, strict=True)}
    rack = np.array([rack_of.get(one.node, NO_RACK) for one in model.endpoints], dtype=np.int64)
    source, target = (rack[ends] for ends in model.pairs)
    known = (source != NO_RACK) & (target != NO_RACK)
    every = model.rates_per_s()
    if not known.any():
        raise InputError("no two of its endpoints are on nodes of the cluster", where=path)
    racks = len(cluster.rack_names)
    crosses = known & (source != target)
    taken = np.zeros(racks)
    for window in range(len(model.windows)):
        rates = model.rates_per_s(window)
        taken = np.maximum(taken, _on_uplinks(source[crosses], target[crosses], rates[crosses], racks))
    left = cluster.uplink_bytes_per_s - taken
    if (left <= 0).any():
        full = int(np.argmin(left))
        taken_gbps, has_gbps = taken[full] / GBPS, cluster.uplink_bytes_per_s[full] / GBPS
        name = cluster.rack_names[full]
        raise InputError(
            f"takes {taken_gbps:.3g} Gbit/s of the uplink of rack {name!r}, which has {has_gbps:.3g}",
            where=path,
        )
    total = float(every.sum())
    without = float(every[~known].sum()) / total if total > 0 else 0.0
    more = f"; {without:.0%} of it has an end on no node, and is left out" if without > MIN_UNPLACED else ""
    told = f"services take up to {taken.max() / GBPS:.3g} Gbit/s of a rack's uplink{more}"
    return replace(cluster, uplink_bytes_per_s=left), told


def _on_uplinks(source: Ints, target: Ints, rate: Floats, racks: int) -> Floats:
    """(racks,) the larger of what each rack sends to others and receives from them, bytes per second."""
    return np.maximum(
        np.bincount(source, weights=rate, minlength=racks), np.bincount(target, weights=rate, minlength=racks)
    )
