"""Traffic of services as background on the racks' uplinks, from a traffic model of `kwiken traffic fit`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kwiken.base.errors import InputError
from kwiken.cli.data.traffic.reading import load_traffic

if TYPE_CHECKING:
    from kwiken.base.arrays import Floats, Ints
    from kwiken.model.nodes.document import RackCluster

GBPS: Final = 1e9 / 8  # bytes per second
NO_RACK: Final = -1
MIN_UNPLACED: Final = 0.01  # share of the traffic without a rack, below which it is not mentioned


@dataclass(frozen=True)
class BusyUplinks:
    """Cluster whose uplinks have what services leave, and a sentence for users.

    Attributes:
        cluster: the cluster, with less bandwidth between racks and core.
        told: sentence for users that says how much the services take.
    """

    cluster: RackCluster
    told: str


def beside_traffic(path: str, cluster: RackCluster) -> BusyUplinks:
    """Take the traffic between racks off their uplinks: of each rack, that of its busiest window of the day.

    An uplink carries as much in each direction; the larger of what a rack sends and receives counts.

    Raises:
        InputError: names the file: no traffic model, one that counts calls, one whose machines are none of
            the cluster's, or more traffic than an uplink carries.
    """
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
    return BusyUplinks(replace(cluster, uplink_bytes_per_s=left), told)


def _on_uplinks(source: Ints, target: Ints, rate: Floats, racks: int) -> Floats:
    """(racks,) the larger of what each rack sends to others and receives from them, bytes per second."""
    return np.maximum(
        np.bincount(source, weights=rate, minlength=racks), np.bincount(target, weights=rate, minlength=racks)
    )
