"""Nodes: machines that replicas and tasks are placed on, their classes and zones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.base.errors import InputError

MAX_CORES: Final = 4096.0  # of one node
MAX_MEMORY_GB: Final = 1e6  # of one node
MIN_QUANTITY: Final = 1e-6  # of any quantity; quotients of what is smaller overflow
MAX_FACTOR: Final = 1e9  # of a speed, and of a cost per hour
MAX_NAME_LENGTH: Final = 200
# Labels of nodes in Kubernetes. The class of a node is its own label, or else its instance type.
CLASS_LABEL: Final = "kwiken/class"
HOST_LABEL: Final = "kubernetes.io/hostname"
TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"


def affinity_to_classes(classes: Sequence[str]) -> dict[str, Any]:
    """Affinity of a pod of Kubernetes that needs a node of one of some classes, and no certain node.

    Args:
        classes: names of the classes, one or more.
    """
    own = {"key": CLASS_LABEL, "operator": "In", "values": list(classes)}
    unlabelled = {"key": CLASS_LABEL, "operator": "DoesNotExist"}
    terms = [[{**own, "key": TYPE_LABEL}, unlabelled], [own]]
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": term} for term in terms]
        }
    }


def preference_of_nodes(nodes: Sequence[str]) -> dict[str, Any]:
    """Affinity of a pod of Kubernetes that prefers some nodes.

    Args:
        nodes: names of the nodes, one or more.
    """
    named = {"key": HOST_LABEL, "operator": "In", "values": list(nodes)}
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchExpressions": [named]}}
        ]
    }


def check_bounded(name: str, value: float, most: float) -> None:
    """Raise ValueError unless the value is at least `MIN_QUANTITY` and at most `most`; NaN fails too."""
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number above 0 and at most {most:g}, not {value}")
    if not MIN_QUANTITY <= value <= most:
        raise ValueError(f"{name} must be from {MIN_QUANTITY:g} to {most:g}, not {value}")


class NodeClass(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Class of nodes: machines of one type.

    Attributes:
        name: unique name, as in the profiles of workloads.
        cores: number of cores of one node that workloads may use, such as the allocatable ones of a node of
            Kubernetes; a share of a core may be given.
        memory_gb: memory of one node that workloads may use, in units of GB.
        speed: speed as a factor of the reference class, for workloads that were not measured on this class;
            None if it is not known.
        cost_per_hour: cost of one node in an hour, in any currency; None for none. All classes have one, or
            none has.
        has: amount of each shared resource that one node has, by source of contention, such as GB/s of memory
            bandwidth or MB of cache; one unit for one source in all classes. Pressure on a resource that a
            class does not state is taken as on the reference class.
    """

    name: str
    cores: float
    memory_gb: float
    speed: float | None = None
    cost_per_hour: float | None = None
    has: dict[str, float] = {}

    def __post_init__(self) -> None:
        """Check names and bounds."""
        if not 0 < len(self.name) <= MAX_NAME_LENGTH:
            raise ValueError(f"name must have 1 to {MAX_NAME_LENGTH} characters")
        check_bounded("cores", self.cores, MAX_CORES)
        check_bounded("memory_gb", self.memory_gb, MAX_MEMORY_GB)
        for name in ("speed", "cost_per_hour"):
            value = getattr(self, name)
            if value is not None:
                check_bounded(name, value, MAX_FACTOR)
        for source, amount in self.has.items():
            check_bounded(f"has.{source}", amount, MAX_FACTOR)


@dataclass(frozen=True, slots=True)
class Node:
    """One machine.

    Attributes:
        zone: zone whose nodes fail together; empty for a zone of its own.
    """

    name: str
    node_class: str
    zone: str = ""


@dataclass(frozen=True, eq=False)
class Cluster:
    """Nodes and their classes, with arrays over the nodes.

    Attributes:
        nodes: machines; position in this tuple is the node's index everywhere in this package.

    Raises:
        InputError: names a class or a node that is given twice, or a node whose class is not among them.
    """

    classes: tuple[NodeClass, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        """Check that names are unique, and classes known."""
        classes, nodes = [found.name for found in self.classes], [node.name for node in self.nodes]
        for kind, names in (("class", classes), ("node", nodes)):
            twice = next((name for name, count in Counter(names).items() if count > 1), None)
            if twice is not None:
                raise InputError(f"the {kind} {twice!r} is given twice", where="cluster")
        known = set(classes)
        for node in self.nodes:
            if node.node_class not in known:
                raise InputError(
                    f"node {node.name!r} has no class {node.node_class!r}; known: {', '.join(classes)}",
                    where="cluster",
                )

    @cached_property
    def class_of(self) -> Ints:
        """(n,) index of each node's class."""
        index = {found.name: place for place, found in enumerate(self.classes)}
        return np.array([index[node.node_class] for node in self.nodes], dtype=np.int64)

    @cached_property
    def class_numbers(self) -> list[int]:
        """`class_of` as plain numbers, which are faster one at a time."""
        return [int(number) for number in self.class_of]

    @cached_property
    def cores(self) -> Floats:
        """(n,) number of cores of each node."""
        return np.array([found.cores for found in self.classes], dtype=np.float64)[self.class_of]

    @cached_property
    def memory_gb(self) -> Floats:
        """(n,) memory of each node, in units of GB."""
        return np.array([found.memory_gb for found in self.classes], dtype=np.float64)[self.class_of]

    @cached_property
    def index_of(self) -> dict[str, int]:
        """Index of each node by its name."""
        return {node.name: place for place, node in enumerate(self.nodes)}

    @cached_property
    def zones(self) -> Ints:
        """(n,) number of each node's zone; nodes of one zone have the same number."""
        numbers: dict[str, int] = {}
        return np.array(
            [numbers.setdefault(self.zone_of(node), len(numbers)) for node in range(len(self.nodes))],
            dtype=np.int64,
        )

    def zone_of(self, node: int) -> str:
        """Name of a node's zone; a node without one is a zone of its own."""
        found = self.nodes[node]
        return found.zone or f"node {found.name}"

    def cost(self, node: int, cores: float, memory_gb: float) -> float:
        """Cost of a part of a node in an hour: the mean of the shares of its cores and of its memory.

        Args:
            cores: number of cores used.
            memory_gb: memory used, in units of GB.

        Returns:
            Cost in the currency of `cost_per_hour`; without one, a whole node costs its number of cores.
        """
        return cost_of(self.classes[self.class_of[node]], cores, memory_gb)


def cost_of(node_class: NodeClass, cores: float, memory_gb: float) -> float:
    """Cost of a part of a node of a class in an hour; see `Cluster.cost`."""
    whole = node_class.cores if node_class.cost_per_hour is None else node_class.cost_per_hour
    return whole * (cores / node_class.cores + memory_gb / node_class.memory_gb) / 2
