"""Pods as replicas of stages: what the API tells of each. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from kwiken.model.nodes.nodes import HOST_LABEL, affinity_to_classes, preference_of_nodes
from kwiken.model.nodes.placement import PLACED_GATE

COMPONENT: Final = "app.kubernetes.io/component"
VERSION: Final = "pod-template-hash"
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
PLACED: Final = "kwiken/node"  # annotation of a pod: node that it was let onto; empty for any of its class
LEARNED: Final = "kwiken/learned"  # annotation of a pod: factor of need over the predicted one
GIVEN_UP: Final = "-1000"  # of a pod that is to end before the others of its Deployment
CONTAINER: Final = "stage"
RESIZE_PENDING: Final = "PodResizePending"  # condition of a pod whose kubelet has no room for its new size
_CORES: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m?)")


@dataclass(frozen=True)
class Pod:
    """One pod.

    Attributes:
        component: stage as a component of the service, by its label.
        version: version of its Deployment's template, by its label.
        waits: whether it waits to be let onto a node.
        ends: whether it is being deleted, has ended, or was given up.
        ready: whether its kubelet says that it answers calls.
        node: node that it is on or was let onto; empty for none, and for one that any node of a class suits.
        address: its IP address; empty for none.
        cores: number of cores that its container has: what the kubelet gave it, else what it requests.
        pending: why it is not resized yet, as `Deferred: ...` or `Infeasible: ...`; empty for nothing.
        placed: whether an upkeep let it onto a node.
        unfit: why the scheduler has no node for it; empty for no reason.
        learned: factor of its stage's need over the predicted one, as an upkeep noted it.
    """

    name: str
    component: str
    version: str
    waits: bool
    ends: bool
    ready: bool
    node: str
    address: str
    cores: float
    pending: str = ""
    placed: bool = False
    unfit: str = ""
    learned: float = 1.0


def pod_of(found: Mapping[str, Any]) -> Pod:
    """A pod, from the API's object."""
    meta, spec, status = found["metadata"], found["spec"], found.get("status", {})
    labels = meta.get("labels") or {}
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    notes, scheduled = meta.get("annotations") or {}, conditions.get("PodScheduled", {})
    # Pods of earlier versions name their node in their selector.
    chosen = notes.get(PLACED, (spec.get("nodeSelector") or {}).get(HOST_LABEL))
    [container] = [one for one in spec["containers"] if one["name"] == CONTAINER] or [{}]
    [running] = [one for one in status.get("containerStatuses") or () if one["name"] == CONTAINER] or [{}]
    requests = running.get("allocatedResources") or container.get("resources", {}).get("requests", {})
    resize = conditions.get(RESIZE_PENDING, {})
    return Pod(
        name=meta["name"],
        component=labels.get(COMPONENT, ""),
        version=labels.get(VERSION, ""),
        waits=any(gate["name"] == PLACED_GATE for gate in spec.get("schedulingGates") or ()),
        ends="deletionTimestamp" in meta
        or status.get("phase") in {"Succeeded", "Failed"}
        or notes.get(DELETION_COST) == GIVEN_UP,
        ready=conditions.get("Ready", {}).get("status") == "True",
        node=spec.get("nodeName") or chosen or "",
        address=status.get("podIP", ""),
        cores=cores_of(requests.get("cpu", "0")),
        pending=f"{resize.get('reason', '')}: {resize.get('message', '')}"
        if resize.get("status") == "True"
        else "",
        placed=chosen is not None,
        unfit=scheduled.get("message", "") if scheduled.get("reason") == "Unschedulable" else "",
        learned=_factor(notes.get(LEARNED, "")),
    )


def _factor(text: str) -> float:
    """Factor of an annotation, 1 or more; 1 for anything else."""
    try:
        found = float(text)
    except ValueError:
        return 1.0
    return found if 1.0 <= found < inf else 1.0


def taken_cores(found: Mapping[str, Any]) -> float:
    """Number of cores that a pod's containers request together; 0 for one that has ended."""
    if found.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
        return 0.0
    containers = found["spec"].get("containers") or ()
    requests = [one.get("resources", {}).get("requests") or {} for one in containers]
    return sum(cores_of(one.get("cpu", "0")) for one in requests)


def cores_of(quantity: str) -> float:
    """Number of cores of a quantity of Kubernetes, such as `250m` or `2`; 0 for another form."""
    match = _CORES.fullmatch(str(quantity))
    return 0.0 if match is None else float(match[1]) / (1000.0 if match[2] else 1.0)


def placing(node_class: str, node: str = "") -> dict[str, Any]:
    """Patch that lets a waiting pod onto a node of a class.

    Args:
        node: node of the class that it prefers; empty for none. Before May 2025 Karpenter made no node for a
            pod that named one, be it a preference (kubernetes-sigs/karpenter#2182).
    """
    affinity = affinity_to_classes([node_class])
    if node:
        affinity |= preference_of_nodes([node])
    return {
        "metadata": {"annotations": {PLACED: node}},
        "spec": {"affinity": {"nodeAffinity": affinity}, "schedulingGates": None},
    }


def noting(learned: float) -> dict[str, Any]:
    """Patch by which the next upkeep learns what this one learned of a pod's stage."""
    return {"metadata": {"annotations": {LEARNED: f"{learned:.4f}"}}}


def giving_up() -> dict[str, Any]:
    """Patch by which a pod is the first to end when its Deployment gets fewer replicas."""
    return {"metadata": {"annotations": {DELETION_COST: GIVEN_UP}}}
