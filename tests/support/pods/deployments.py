"""Model of a Deployment with its pods, a scheduler, kubelets and gateways, in place of Kubernetes."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any, cast

from kwiken.base.errors import KwikenError
from kwiken.model.nodes.placement import PLACED_GATE
from kwiken.runtime.cluster.layout import ReplicaPlace
from kwiken.runtime.gateway.control.client import ControlClient
from kwiken.upkeep.kubernetes.api import KubernetesApi
from kwiken.upkeep.kubernetes.nodes import KubernetesNodes
from kwiken.upkeep.kubernetes.pods import cores_of
from kwiken.upkeep.kubernetes.replicas import PodReplicas
from tests.support.services.single import service

DEPLOYMENT = "single-work"
COST = "controller.kubernetes.io/pod-deletion-cost"


class Deployments:
    """Model of a Deployment's controller, a scheduler and kubelets: pods by the scale, each let onto a node."""

    def __init__(self, nodes: int, cores: float = 100.0) -> None:
        self.scales = {DEPLOYMENT: 1}
        self.ready_nodes = {f"node-{number}": True for number in range(nodes)}
        self.cores = cores  # of a node
        self.taken: dict[str, float] = {}  # cores by node that others have
        self.found: dict[str, dict[str, Any]] = {}
        self.version = "v1"
        self.makes_pods = True
        self.no_room = ""  # why kubelets resize no pod that is on a node
        self.lag = 0  # reads of pods until the controller acts on a scale
        self._late = 0
        self.others: list[dict[str, Any]] = []  # pods of others
        self._numbers = itertools.count()
        self.reconcile()

    def reconcile(self) -> None:
        """Make or end pods until there are as many as the scale says."""
        while self.makes_pods and len(self.found) < self.scales[DEPLOYMENT]:
            name = f"work-{next(self._numbers)}"
            self.found[name] = {
                "metadata": {
                    "name": name,
                    "namespace": "n",
                    "labels": {
                        "app.kubernetes.io/name": "single",
                        "app.kubernetes.io/component": "work",
                        "pod-template-hash": self.version,
                    },
                },
                "spec": {
                    "schedulingGates": [{"name": PLACED_GATE}],
                    "containers": [{"name": "stage", "resources": {"requests": {"cpu": "100m"}}}],
                },
                "status": {"phase": "Pending"},
            }
        while len(self.found) > self.scales[DEPLOYMENT]:
            # As the controller does: those that wait first, then by their mark.
            del self.found[min(self.found, key=self._rank)]

    def schedule(self) -> None:
        """Let pods without a gate onto nodes of their class with room, the preferred one first."""
        free = {name: self.cores - self.taken.get(name, 0.0) for name in self.ready_nodes}
        for pod in self.found.values():
            if "nodeName" in pod["spec"] and pod["spec"]["nodeName"] in free:
                free[pod["spec"]["nodeName"]] -= cores_of(allocated(pod))
        for name, pod in self.found.items():
            spec = pod["spec"]
            if "schedulingGates" in spec or "nodeName" in spec:
                continue
            affinity = spec["affinity"]["nodeAffinity"]
            terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            assert {"key": "kwiken/class", "operator": "In", "values": ["quick"]} in terms[1][
                "matchExpressions"
            ]
            preferred = json.dumps(affinity.get("preferredDuringSchedulingIgnoredDuringExecution"))
            open_ = [
                one
                for one, ready in self.ready_nodes.items()
                if ready and free[one] >= cores_of(allocated(pod))
            ]
            if not open_:
                unfit = {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "no cores",
                }
                pod["status"] = {"phase": "Pending", "conditions": [unfit]}
                continue
            spec["nodeName"] = next((one for one in open_ if f'"{one}"' in preferred), open_[0])
            free[spec["nodeName"]] -= cores_of(allocated(pod))
            pod["status"] = {
                "phase": "Running",
                "podIP": f"10.0.0.{name.partition('-')[2]}",
                "conditions": [{"type": "Ready", "status": "True"}],
            }

    def take_node(self, node: str) -> None:
        """Take a node away; its pods are replaced, as after the collection of a node's pods."""
        del self.ready_nodes[node]
        self.found = {name: pod for name, pod in self.found.items() if pod["spec"].get("nodeName") != node}
        self.reconcile()

    def _rank(self, name: str) -> tuple[bool, int]:
        pod = self.found[name]
        noted = pod["metadata"].get("annotations", {})
        return "nodeName" in pod["spec"], int(noted.get(COST, "0"))

    def end(self, name: str) -> None:
        """End a pod, as an eviction does."""
        del self.found[name]
        self.reconcile()

    async def pods(self, selector: str) -> list[dict[str, Any]]:
        assert selector == "app.kubernetes.io/name=single"
        self.schedule()
        found = list(self.found.values())
        self._late -= 1
        if self._late == 0:
            self.reconcile()  # after the reader has seen what ends now
        return found

    async def all_pods(self) -> list[dict[str, Any]]:
        return [*self.found.values(), *self.others]

    async def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "metadata": {"name": name, "labels": {"kwiken/class": "quick"}},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
                    "allocatable": {"cpu": f"{round(1000 * self.cores)}m"},
                },
            }
            for name, ready in self.ready_nodes.items()
        ]

    async def patch_pod(self, name: str, patch: dict[str, Any]) -> None:
        if name not in self.found:
            raise KwikenError("not found")
        pod = self.found[name]
        pod["metadata"].setdefault("annotations", {}).update(patch.get("metadata", {}).get("annotations", {}))
        if "spec" in patch:
            assert pod["spec"].pop("schedulingGates"), "let onto a node twice"
            pod["spec"]["affinity"] = patch["spec"]["affinity"]
            self.schedule()

    async def resize_pod(self, name: str, container: str, amounts: dict[str, str]) -> None:
        assert container == "stage"
        pod = self.found[name]
        before = pod["spec"]["containers"][0]["resources"]["requests"]
        pod["spec"]["containers"][0]["resources"]["requests"] = amounts
        status = pod["status"]
        if self.no_room and "nodeName" in pod["spec"]:
            reason, _, message = self.no_room.partition(": ")
            status["containerStatuses"] = [{"name": "stage", "allocatedResources": before}]
            status["conditions"] = [one for one in status["conditions"] if one["type"] == "Ready"] + [
                {"type": "PodResizePending", "status": "True", "reason": reason, "message": message}
            ]

    def make_room(self) -> None:
        """Let kubelets resize what they deferred."""
        self.no_room = ""
        for pod in self.found.values():
            pod["status"].pop("containerStatuses", None)
            conditions = pod["status"].get("conditions", [])
            pod["status"]["conditions"] = [one for one in conditions if one["type"] == "Ready"]

    async def scale(self, deployment: str) -> int:
        return self.scales[deployment]

    async def set_scale(self, deployment: str, replicas: int) -> None:
        self.scales[deployment] = replicas
        if self.lag:
            self._late = self.lag
        else:
            self.reconcile()

    def where(self) -> list[tuple[str, str]]:
        """Node and size of every pod that is on a node."""
        return sorted(
            (pod["spec"]["nodeName"], allocated(pod))
            for pod in self.found.values()
            if "nodeName" in pod["spec"]
        )


def allocated(pod: dict[str, Any]) -> str:
    """Processor time that the kubelet has given a pod."""
    for status in pod["status"].get("containerStatuses", ()):
        return str(status["allocatedResources"]["cpu"])
    return str(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])


class GatewaysOfPods:
    """Client of gateways that know pods by their addresses."""

    def __init__(self, there: Deployments) -> None:
        self._there = there

    async def status(self) -> dict[str, Any]:
        addresses = [pod["status"]["podIP"] for pod in self._there.found.values() if "podIP" in pod["status"]]
        shown = [{"id": f"{one}:9000", "node": one} for one in addresses]
        return {"stages": {"work": {"replicas": shown}}}


def cluster_of(there: Deployments) -> PodReplicas:
    """Replicas as an upkeep that has just started sees them."""
    return PodReplicas(
        service,
        cast("KubernetesApi", there),
        cast("ControlClient", GatewaysOfPods(there)),
        KubernetesNodes(there.ready_nodes),
        name="single",
        components={"work": "work"},
    )


@contextlib.asynccontextmanager
async def settled(
    nodes: int = 4, *places: tuple[str, float], cores: float = 100.0
) -> AsyncIterator[tuple[Deployments, PodReplicas]]:
    """The model and its replicas, once pods stand at some places: node and cores of each."""
    there = Deployments(nodes, cores)
    cluster = cluster_of(there)
    wanted = [(f"key-{place}", ReplicaPlace(node, cores)) for place, (node, cores) in enumerate(places)]
    found = await cluster.settle({"work": wanted})
    assert all(isinstance(name, str) for name in found.values()), found
    yield there, cluster
