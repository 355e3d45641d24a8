"""The document that lists nodes, and what batch jobs need besides: slots, disks, racks and links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final

import msgspec
import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import convert
from kwiken.base.parsing.strict_toml import parse_toml
from kwiken.model.nodes.nodes import MAX_NAME_LENGTH, Cluster, Node, NodeClass, check_bounded

MAX_BYTES: Final = 64 << 20  # of a document of nodes
MAX_NODES: Final = 100_000
MAX_CLASSES: Final = 1000
MAX_RACKS: Final = 10_000
MAX_SLOTS: Final = 4096  # of one node
MAX_DISK_MB_PER_S: Final = 1e6
MAX_GBPS: Final = 1e6  # of one link
BYTES_PER_S_OF_GBPS: Final = 1e9 / 8
DISK_MB_PER_S: Final = 200.0  # of a class that states none
NIC_GBPS: Final = 10.0  # of a class that states none
OVERSUBSCRIPTION: Final = 5.0  # bandwidth inside a rack over its uplink, where no uplink is stated


class _ClassTable(NodeClass, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table `[[classes]]`: a class of nodes, and its hardware as batch jobs see it."""

    slots: Annotated[int, msgspec.Meta(ge=1, le=MAX_SLOTS)] | None = None
    disk_mb_per_s: float | None = None
    nic_gbps: float | None = None

    def __post_init__(self) -> None:
        """Check bounds."""
        NodeClass.__post_init__(self)
        for name, most in (("disk_mb_per_s", MAX_DISK_MB_PER_S), ("nic_gbps", MAX_GBPS)):
            value = getattr(self, name)
            if value is not None:
                check_bounded(name, value, most)


class _NodeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table `[[nodes]]`: a node, or several alike."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    node_class: str = msgspec.field(name="class")
    zone: Annotated[str, msgspec.Meta(max_length=MAX_NAME_LENGTH)] = ""
    rack: Annotated[str, msgspec.Meta(max_length=MAX_NAME_LENGTH)] = ""
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_NODES)] | None = None


class _RackTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One table `[[racks]]`: the uplink of a rack."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    uplink_gbps: float

    def __post_init__(self) -> None:
        """Check bounds."""
        check_bounded("uplink_gbps", self.uplink_gbps, MAX_GBPS)


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    classes: Annotated[list[_ClassTable], msgspec.Meta(min_length=1, max_length=MAX_CLASSES)]
    nodes: Annotated[list[_NodeTable], msgspec.Meta(min_length=1, max_length=MAX_NODES)]
    racks: Annotated[list[_RackTable], msgspec.Meta(max_length=MAX_RACKS)] = []


@dataclass(frozen=True, eq=False)
class RackCluster:
    """Nodes in racks, with the hardware that batch jobs use.

    Attributes:
        nodes: the nodes, as services see them.
        slots: (n,) number of tasks that each node runs at once.
        disk_bytes_per_s: (n,) bandwidth of each node's disks, bytes per second.
        nic_bytes_per_s: (n,) bandwidth of each node's link, bytes per second.
        rack: (n,) index of each node's rack.
        rack_names: names of the racks, in the order in which nodes name them.
        uplink_bytes_per_s: (r,) bandwidth from each rack to the core, bytes per second.
    """

    nodes: Cluster
    slots: Ints
    disk_bytes_per_s: Floats
    nic_bytes_per_s: Floats
    rack: Ints
    rack_names: tuple[str, ...]
    uplink_bytes_per_s: Floats

    @property
    def rack_slots(self) -> Ints:
        """(r,) number of slots in each rack."""
        return np.bincount(self.rack, weights=self.slots, minlength=len(self.rack_names)).astype(np.int64)

    @property
    def rack_sizes(self) -> Ints:
        """(r,) number of nodes in each rack."""
        return np.bincount(self.rack, minlength=len(self.rack_names))

    def without_cores(self, used: Mapping[str, float]) -> RackCluster:
        """The cluster with the slots that others leave: a slot is an equal share of a node's cores.

        Args:
            used: number of cores that others hold, by the name of a node.

        Raises:
            InputError: names a node that is not there.
        """
        slots = self.slots.copy()
        for name, cores in used.items():
            node = self.nodes.index_of.get(name)
            if node is None:
                raise InputError(f"holds node {name!r}, which the cluster has not", where="placement")
            share = self.slots[node] / self.nodes.cores[node]
            slots[node] = max(0, int(np.floor(self.slots[node] - cores * share + 1e-9)))
        return replace(self, slots=slots)


def nodes_from_toml(text: str | bytes, *, where: str) -> Cluster:
    """Cluster of a `nodes.toml` or `cluster.toml`, with the nodes in the document's order.

    Args:
        text: TOML document with tables `[[classes]]` (the fields of `NodeClass`) and `[[nodes]]` (`name`,
            `class`, `zone`; with `count`, that many nodes named `name-1` and so on). What `cluster_from_toml`
            reads besides is checked.
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the line of broken syntax, or the table and field that is wrong or unknown.
    """
    return _read(text, where)[0]


def cluster_from_toml(text: str | bytes, *, where: str) -> RackCluster:
    """Racks of a `cluster.toml`: a `nodes.toml` with slots, disks and links.

    Tables `[[classes]]` may have `slots` (the number of cores by default), `disk_mb_per_s` and `nic_gbps`;
    tables `[[nodes]]` a `rack` (the zone by default); tables `[[racks]]` the `uplink_gbps` of a rack, which
    is a fifth of the bandwidth of its nodes by default.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the line of broken syntax, the table and field that is wrong or unknown, or a node
            without rack and zone.
    """
    cluster, document, racks = _read(text, where)
    classes = [document.classes[number] for number in cluster.class_numbers]
    for node, name in zip(cluster.nodes, racks, strict=True):
        if not name:
            raise InputError(f"node {node.name!r} has neither rack nor zone: give one", where=where)
    names = tuple(dict.fromkeys(racks))
    number = {name: place for place, name in enumerate(names)}
    rack = np.array([number[name] for name in racks], dtype=np.int64)
    nic = np.array([(one.nic_gbps or NIC_GBPS) * BYTES_PER_S_OF_GBPS for one in classes])
    uplink = np.bincount(rack, weights=nic, minlength=len(names)) / OVERSUBSCRIPTION
    seen = set()
    for place, table in enumerate(document.racks):
        if table.name not in number:
            raise InputError(f"racks[{place}].name: no node is in rack {table.name!r}", where=where)
        if table.name in seen:
            raise InputError(f"racks[{place}].name: {table.name!r} is given twice", where=where)
        seen.add(table.name)
        uplink[number[table.name]] = table.uplink_gbps * BYTES_PER_S_OF_GBPS
    return RackCluster(
        nodes=cluster,
        slots=np.array([one.slots or max(1, int(one.cores)) for one in classes], dtype=np.int64),
        disk_bytes_per_s=np.array([1e6 * (one.disk_mb_per_s or DISK_MB_PER_S) for one in classes]),
        nic_bytes_per_s=nic,
        rack=rack,
        rack_names=names,
        uplink_bytes_per_s=uplink,
    )


def _read(text: str | bytes, where: str) -> tuple[Cluster, _Document, list[str]]:
    """Cluster, document, and the name of each node's rack."""
    document = convert(parse_toml(text, where=where, max_bytes=MAX_BYTES), _Document, where=where)
    classes: dict[str, NodeClass] = {}
    for place, found in enumerate(document.classes):
        if found.name in classes:
            raise InputError(f"classes[{place}].name: {found.name!r} is given twice", where=where)
        if (found.cost_per_hour is None) != (document.classes[0].cost_per_hour is None):
            raise InputError(
                f"classes[{place}].cost_per_hour: give one for every class, or for none", where=where
            )
        classes[found.name] = NodeClass(
            **{name: getattr(found, name) for name in NodeClass.__struct_fields__}
        )
    nodes: dict[str, Node] = {}
    racks: list[str] = []
    for place, table in enumerate(document.nodes):
        if table.node_class not in classes:
            known = ", ".join(classes)
            raise InputError(
                f"nodes[{place}].class: no class {table.node_class!r}; known: {known}", where=where
            )
        if len(nodes) + (table.count or 1) > MAX_NODES:
            raise InputError(f"nodes[{place}]: more than {MAX_NODES} nodes", where=where)
        alike = range(1, table.count + 1) if table.count is not None else (None,)
        for number in alike:
            name = table.name if number is None else f"{table.name}-{number}"
            if name in nodes:
                raise InputError(f"nodes[{place}].name: {name!r} is given twice", where=where)
            nodes[name] = Node(name, table.node_class, table.zone)
            racks.append(table.rack or table.zone)
    return Cluster(tuple(classes.values()), tuple(nodes.values())), document, racks
