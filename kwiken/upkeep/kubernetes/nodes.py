"""Nodes of Kubernetes: those that are ready, with their classes and zones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kwiken.base.errors import InputError, KwikenError
from kwiken.model.nodes.nodes import CLASS_LABEL, TYPE_LABEL, ZONE_LABEL, Node
from kwiken.runtime.node_classes.limit import Limit
from kwiken.upkeep.kubernetes.pods import cores_of


def node_of(found: Mapping[str, Any]) -> Node:
    """A node, from the API's object; its class is empty where no label says it."""
    labels = found["metadata"].get("labels") or {}
    node_class = labels.get(CLASS_LABEL) or labels.get(TYPE_LABEL, "")
    return Node(found["metadata"]["name"], node_class, labels.get(ZONE_LABEL, ""))


def usable_nodes(found: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of the nodes that are ready and not cordoned."""
    usable = set()
    for one in found:
        conditions = {each["type"]: each["status"] for each in one.get("status", {}).get("conditions") or ()}
        if conditions.get("Ready") == "True" and not one.get("spec", {}).get("unschedulable"):
            usable.add(one["metadata"]["name"])
    return usable


class KubernetesNodes:
    """Nodes as an upkeep uses them. The pods that stand there are another's business.

    Args:
        known: names of the nodes that the upkeep places on.

    Attributes:
        usable: names of the nodes that are ready and not cordoned, as they were last seen.
        classes: class of each node that was ever seen, by name.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self._known = set(known)
        self.usable: set[str] = set()
        self.classes: dict[str, str] = {}
        self._cores: dict[str, float] = {}  # allocatable

    def see(self, found: Collection[Mapping[str, Any]]) -> None:
        """Take note of the nodes, from the API's objects."""
        self.usable = usable_nodes(found)
        self.classes |= {node.name: node.node_class for node in map(node_of, found)}
        allocatable = {one["metadata"]["name"]: one.get("status", {}).get("allocatable") for one in found}
        self._cores = {name: cores_of((each or {}).get("cpu", "0")) for name, each in allocatable.items()}

    @property
    def joined(self) -> set[str]:
        """Names of usable nodes that the upkeep does not place on yet."""
        return self.usable - self._known

    def has_cores(self, node_class: str, cores: float, taken: Mapping[str, float]) -> bool:
        """Whether a usable node of a class has cores that no pod requests.

        Args:
            taken: number of cores that pods request, by node.
        """
        return any(
            self.classes[name] == node_class and self._cores[name] - taken.get(name, 0.0) >= cores
            for name in self.usable
        )

    def add_node(self, node: str, limit: Limit) -> None:
        """Use a node again.

        Args:
            limit: limit of all that runs there, which its kubelet keeps.

        Raises:
            KwikenError: it is not ready, or cordoned.
        """
        del limit
        if node not in self.usable:
            raise KwikenError(f"node {node} is not ready, or cordoned")

    async def remove_node(self, node: str) -> None:
        """Use a node no longer, which takes nothing from Kubernetes."""

    async def start(
        self, command: Sequence[str], *, name: str, limit: Limit | None, node: str | None, **options: Any
    ) -> object:
        """Refuse: best-effort work of Kubernetes has its own Deployments.

        Args:
            limit: number of processors and speed that it would have; None for no limit.
            options: further options of the process.

        Raises:
            InputError: always.
        """
        del command, limit, node, options
        raise InputError("an upkeep of Kubernetes starts no commands", where=name)

    async def end(self, name: str) -> None:
        """Nothing: no command was started."""
