"""Cluster from what `kubectl get nodes,pods,poddisruptionbudgets -A -o json` prints.

Fields that are not needed are left alone, since a server writes hundreds. What is needed is read strictly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np

from kwiken.allocator.packing.documents.item_shapes import check_item
from kwiken.allocator.packing.documents.quantities import BYTES_PER_GB, quantity
from kwiken.allocator.packing.tasks.packed_cluster import MAX_PACKED_NODES, MAX_TASKS, PackedCluster
from kwiken.base.arrays import Bools, Ints
from kwiken.base.errors import InputError
from kwiken.base.parsing.strict_json import parse_json
from kwiken.model.nodes.nodes import HOST_LABEL, TYPE_LABEL, ZONE_LABEL, Cluster, Node, NodeClass

MAX_CLUSTER_BYTES: Final = 1 << 30
SYSTEM_CRITICAL: Final = 2_000_000_000  # priority of pods without which the cluster does not work
MIRROR: Final = "kubernetes.io/config.mirror"
SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
PACKED: Final = {"cpu", "memory", "ephemeral-storage"}  # resources of every node; storage is not counted
HASH: Final = "pod-template-hash"


def wants_pod(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes an object; an empty selector takes all."""
    wanted = selector.get("matchLabels") or {}
    rules = selector.get("matchExpressions") or []
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(rule, labels) for rule in rules
    )


def wants_node(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a pod's node selector and required node affinity take a node.

    Args:
        spec: `spec` of the pod.
        labels: labels of the node.
    """
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_term(term, labels) for term in required.get("nodeSelectorTerms") or [])


def tolerates(tolerations: Sequence[Mapping[str, Any]], taints: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a pod tolerates all taints of a node that keep pods away."""
    return all(
        any(_tolerated(one, taint) for one in tolerations)
        for taint in taints
        if taint.get("effect") in {"NoSchedule", "NoExecute"}
    )


def _tolerated(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in {None, "", taint.get("effect")}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in {None, "", taint.get("key")}
    same = toleration.get("key") == taint.get("key")
    return same and (toleration.get("value") or "") == (taint.get("value") or "")


def _term(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """A term of a node affinity; a term without rules takes nothing."""
    rules = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not rules and not fields:
        return False
    named = {"metadata.name": labels.get(HOST_LABEL, "")}
    return all(_holds(rule, labels) for rule in rules) and all(_holds(rule, named) for rule in fields)


def _holds(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(str(rule.get("key")))
    values = rule.get("values") or []
    first = values[0] if values else None
    answers = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
        "Gt": _number(value) > _number(first),
        "Lt": _number(value) < _number(first),
    }
    return answers.get(str(rule.get("operator")), False)  # an operator of a later release takes nothing


def _number(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return float("nan")


@dataclass
class _Pods:
    """Pods that stand on nodes, gathered one by one."""

    names: list[str] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    memory_gb: list[float] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    stays: dict[int, str] = field(default_factory=dict)
    resident: list[bool] = field(default_factory=list)
    apart: list[bool] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    labels: list[Mapping[str, str]] = field(default_factory=list)
    spaces: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class PodContainer:
    """Container of a pod, with what it requests.

    Attributes:
        memory_gb: memory that is requested, in units of GB.
        most_cores: limit on the number of cores; infinite for none.
        most_memory_gb: limit on memory, in units of GB; infinite for none.
        sidecar: whether it is an init container that keeps running.
    """

    name: str
    cores: float
    memory_gb: float
    most_cores: float
    most_memory_gb: float
    sidecar: bool


@dataclass(frozen=True)
class KubernetesCluster:
    """Cluster that kubectl described.

    Attributes:
        packed: pods as tasks, on the nodes that are listed.
        pending: number of pods that stand on no node yet; they are left out.
        budgets_listed: whether the document lists disruption budgets.
        containers: by the index of a pod, its containers that keep running.
    """

    packed: PackedCluster
    pending: int
    budgets_listed: bool
    containers: Mapping[int, tuple[PodContainer, ...]]


def cluster_from_kubectl(text: str | bytes, *, where: str) -> KubernetesCluster:
    """Read nodes, pods and disruption budgets.

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: names the item and field that is missing or wrong, a name that is given twice, a pod on a
            node that is not listed, or a document without nodes.
    """
    by_kind = _by_kind(text, where)
    cluster, labels, taints, opened, most_tasks = _nodes(by_kind["Node"], where)
    rows: dict[str, int] = {}
    allowed: list[Bools] = []
    pods, containers, pending = _Pods(), dict[int, tuple[PodContainer, ...]](), 0
    seen: set[str] = set()
    for path, item in by_kind.get("Pod", []):
        if _at(item, "status", "phase") in {"Succeeded", "Failed"}:
            continue
        spec = _dict(item, "spec", where, path)
        if not spec.get("nodeName"):
            pending += 1
            continue
        name = f"{_name(item, 'namespace', where, path)}/{_name(item, 'name', where, path)}"
        if name in seen:
            raise InputError(f"{path}: the pod {name!r} is given twice", where=where)
        seen.add(name)
        host = cluster.index_of.get(str(spec["nodeName"]))
        if host is None:
            raise InputError(f"{path}.spec.nodeName: no node {spec['nodeName']!r} in the list", where=where)
        zone = labels[host].get(ZONE_LABEL, "") if _claims(spec) else None
        key = json.dumps(
            [spec.get("nodeSelector"), _at(spec, "affinity", "nodeAffinity"), spec.get("tolerations"), zone],
            sort_keys=True,
        )
        if key not in rows:
            rows[key] = len(allowed)
            allowed.append(_allowed(spec, labels, taints, zone))
        task = len(pods.names)
        containers[task] = _add(pods, item, spec, name, host, rows[key], f"{where}: {path}")
    budgets = _budgets(by_kind.get("PodDisruptionBudget", []), pods, where)
    allowed = allowed or [np.ones(len(cluster.nodes), dtype=np.bool_)]
    packed = PackedCluster(
        cluster=cluster,
        tasks=tuple(pods.names),
        owners=tuple(pods.owners),
        cores=np.array(pods.cores, dtype=np.float64),
        memory_gb=np.array(pods.memory_gb, dtype=np.float64),
        node=np.array(pods.node, dtype=np.int64),
        stays=pods.stays,
        resident=np.array(pods.resident, dtype=np.bool_),
        open_nodes=opened,
        kinds=np.array(pods.kinds, dtype=np.int64),
        allowed=np.array(allowed, dtype=np.bool_),
        budgets=budgets,
        apart=np.array(pods.apart, dtype=np.bool_),
        most_tasks=most_tasks,
    )
    return KubernetesCluster(packed, pending, "PodDisruptionBudget" in by_kind, containers)


def _by_kind(text: str | bytes, where: str) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Items of a list by their kind, each with its path in the document."""
    raw = parse_json(text, where=where, max_bytes=MAX_CLUSTER_BYTES)
    items = raw.get("items") if isinstance(raw, dict) else None
    if not isinstance(items, list):
        raise InputError(
            "is no list of Kubernetes; write it by kubectl get nodes,pods,poddisruptionbudgets -A -o json",
            where=where,
        )
    by_kind: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for place, item in enumerate(items):
        path = f"items[{place}]"
        kind = item.get("kind") if isinstance(item, dict) else None
        if not isinstance(kind, str):
            raise InputError(f"{path}.kind: is missing", where=where)
        check_item(kind, item, path=path, where=where)
        by_kind.setdefault(kind, []).append((path, item))
    if "Node" not in by_kind:
        raise InputError("lists no node; write it by kubectl get nodes,pods -A -o json", where=where)
    for what, most in (("Node", MAX_PACKED_NODES), ("Pod", MAX_TASKS)):
        if len(by_kind.get(what, ())) > most:
            raise InputError(f"lists more than {most} items of kind {what}", where=where)
    return by_kind


def _nodes(
    items: Sequence[tuple[str, dict[str, Any]]], where: str
) -> tuple[Cluster, list[Mapping[str, str]], list[list[dict[str, Any]]], Bools, Ints]:
    """Nodes as a cluster, with labels, taints, whether each takes new pods, and how many pods in all."""
    classes: dict[tuple[str, float, float], NodeClass] = {}
    nodes, labels = list[Node](), list[Mapping[str, str]]()
    taints, opened, most_tasks = list[list[dict[str, Any]]](), list[bool](), list[int]()
    for path, item in items:
        name = _name(item, "name", where, path)
        capacity = _at(item, "status", "allocatable") or _at(item, "status", "capacity")
        if not isinstance(capacity, dict):
            raise InputError(f"{path}.status.allocatable: is missing", where=where)
        at = f"{where}: {path}.status.allocatable"
        cores = quantity(capacity.get("cpu"), where=f"{at}.cpu")
        memory_gb = quantity(capacity.get("memory"), where=f"{at}.memory") / BYTES_PER_GB
        own = _at(item, "metadata", "labels") or {}
        kind = str(own.get(TYPE_LABEL) or "node")
        key = (kind, round(cores, 6), round(memory_gb, 6))
        if key not in classes:
            told = sum(known[0] == kind for known in classes)
            try:
                classes[key] = NodeClass(
                    name=kind if not told else f"{kind} ({cores:g} cores, {memory_gb:.4g} GB)",
                    cores=cores,
                    memory_gb=memory_gb,
                )
            except ValueError as error:
                raise InputError(str(error), where=at) from error
        nodes.append(Node(name, classes[key].name, str(own.get(ZONE_LABEL) or "")))
        labels.append({**own, HOST_LABEL: str(own.get(HOST_LABEL) or name)})
        spec = item.get("spec") or {}
        taints.append([one for one in spec.get("taints") or [] if isinstance(one, dict)])
        ready = next(
            (
                one.get("status")
                for one in _at(item, "status", "conditions") or []
                if isinstance(one, dict) and one.get("type") == "Ready"
            ),
            "True",
        )
        most = int(min(MAX_TASKS, quantity(capacity.get("pods", MAX_TASKS), where=f"{at}.pods")))
        opened.append(ready == "True" and not spec.get("unschedulable") and most > 0)
        most_tasks.append(max(1, most))
    try:
        cluster = Cluster(tuple(classes.values()), tuple(nodes))
    except InputError as error:
        raise InputError(error.problem, where=where) from error
    return cluster, labels, taints, np.array(opened, dtype=np.bool_), np.array(most_tasks, dtype=np.int64)


def _allowed(
    spec: Mapping[str, Any],
    labels: Sequence[Mapping[str, str]],
    taints: Sequence[Sequence[Mapping[str, Any]]],
    zone: str | None,
) -> Bools:
    """Nodes that a pod may go to, by its selector, affinity, tolerations and the zone of its volumes."""
    return np.array(
        [
            wants_node(spec, own)
            and tolerates(spec.get("tolerations") or [], tainted)
            and (zone is None or own.get(ZONE_LABEL, "") == zone)
            for own, tainted in zip(labels, taints, strict=True)
        ],
        dtype=np.bool_,
    )


def _add(
    pods: _Pods, item: Mapping[str, Any], spec: Mapping[str, Any], name: str, host: int, kind: int, at: str
) -> tuple[PodContainer, ...]:
    """Add a pod; returns its containers with their requests."""
    containers = tuple(_containers(spec, at))
    starting = [
        _requests(one, f"{at}.spec.initContainers[{place}]")
        for place, one in enumerate(_dicts(spec.get("initContainers")))
        if one.get("restartPolicy") != "Always"
    ]
    cores = max([sum(one.cores for one in containers), *(first for first, _ in starting)])
    memory_gb = max([sum(one.memory_gb for one in containers), *(second for _, second in starting)])
    overhead = spec.get("overhead") or {}
    cores += quantity(overhead.get("cpu", 0), where=f"{at}.spec.overhead.cpu")
    memory_gb += quantity(overhead.get("memory", 0), where=f"{at}.spec.overhead.memory") / BYTES_PER_GB
    owner, reason, resident = _owner(item)
    _plain(owner.rpartition("/")[2], where=f"{at}.metadata.ownerReferences")
    place = len(pods.names)
    reason = reason or _pinned(item, spec)
    if reason and not resident:
        pods.stays[place] = reason
    pods.names.append(name)
    pods.owners.append(owner or name)
    pods.cores.append(cores)
    pods.memory_gb.append(memory_gb)
    pods.node.append(host)
    pods.resident.append(resident)
    pods.apart.append(_apart(spec))
    pods.kinds.append(kind)
    pods.labels.append(_at(item, "metadata", "labels") or {})
    pods.spaces.append(name.partition("/")[0])
    return containers


def _containers(spec: Mapping[str, Any], at: str) -> Iterator[PodContainer]:
    for kind in ("containers", "initContainers"):
        for place, one in enumerate(_dicts(spec.get(kind))):
            if kind == "containers" or one.get("restartPolicy") == "Always":
                path = f"{at}.spec.{kind}[{place}]"
                most = [
                    quantity(found, where=f"{path}.resources.limits.{name}")
                    if found is not None
                    else math.inf
                    for name in ("cpu", "memory")
                    for found in (_at(one, "resources", "limits", name),)
                ]
                name, asked = str(one.get("name", "")), _requests(one, path)
                yield PodContainer(name, *asked, most[0], most[1] / BYTES_PER_GB, kind != "containers")


def _requests(container: Mapping[str, Any], at: str) -> tuple[float, float]:
    """Cores and GB that a container requests; a limit alone is a request too."""
    wanted = {
        **(_at(container, "resources", "limits") or {}),
        **(_at(container, "resources", "requests") or {}),
    }
    at = f"{at}.resources.requests"
    return (
        quantity(wanted.get("cpu", 0), where=f"{at}.cpu"),
        quantity(wanted.get("memory", 0), where=f"{at}.memory") / BYTES_PER_GB,
    )


def _owner(item: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Owner of a pod, why it cannot be moved (empty if it can), and whether it belongs to its node."""
    space = str(_at(item, "metadata", "namespace") or "default")
    found = next(
        (one for one in _dicts(_at(item, "metadata", "ownerReferences")) if one.get("controller", True)), None
    )
    if MIRROR in (_at(item, "metadata", "annotations") or {}):
        return "", "static pod of its node", True
    if found is None:
        return "", "no owner would start it anew", False
    kind, name = str(found.get("kind", "")), str(found.get("name", ""))
    tag = (_at(item, "metadata", "labels") or {}).get(HASH)
    if kind == "ReplicaSet" and tag and name.endswith(f"-{tag}"):
        kind, name = "Deployment", name.removesuffix(f"-{tag}")
    if kind == "Node":
        return "", "static pod of its node", True
    return f"{space}/{kind}/{name}", "", kind == "DaemonSet"


def _pinned(item: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """Why a pod with an owner is not moved; empty if it can be."""
    devices = (f"it requests {name}, which is not packed" for name in _devices(spec))
    return next(chain(_pins(item, spec), devices), "")


def _pins(item: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[str]:
    """Every reason why a pod with an owner is not moved."""
    notes = _at(item, "metadata", "annotations") or {}
    if notes.get(SAFE_TO_EVICT) == "false":
        yield "marked as not safe to evict"
    if int(spec.get("priority") or 0) >= SYSTEM_CRITICAL:
        yield "critical to the system"
    for volume in _dicts(spec.get("volumes")):
        if "hostPath" in volume:
            yield "it uses a folder of its node"
        if "emptyDir" in volume and (volume.get("emptyDir") or {}).get("medium") != "Memory":
            yield "data in an emptyDir would be lost"
    if _at(spec, "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        yield "it must stand beside other pods"
    labels = _at(item, "metadata", "labels") or {}
    if any(not wants_pod(rule.get("labelSelector") or {}, labels) for rule in _anti_affinity(spec)):
        yield "it must not stand beside pods of others"
    for rule in (*_anti_affinity(spec), *_required_spread(spec)):
        if rule.get("topologyKey") != HOST_LABEL:
            yield f"it is spread over {rule.get('topologyKey')}"


def _devices(spec: Mapping[str, Any]) -> Iterator[str]:
    """Resources that containers request beside those of every node, such as GPUs and huge pages."""
    for one in (*_dicts(spec.get("containers")), *_dicts(spec.get("initContainers"))):
        for kind in ("requests", "limits"):
            yield from sorted((_at(one, "resources", kind) or {}).keys() - PACKED)
    if spec.get("resourceClaims"):
        yield "devices"


def _anti_affinity(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _dicts(_at(spec, "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"))


def _required_spread(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    rules = _dicts(spec.get("topologySpreadConstraints"))
    return [one for one in rules if one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]


def _apart(spec: Mapping[str, Any]) -> bool:
    """Whether no two pods of an owner may share a node: anti-affinity, or a spread that is required."""
    ports = any(
        port.get("hostPort") for one in _dicts(spec.get("containers")) for port in _dicts(one.get("ports"))
    )
    return bool(_anti_affinity(spec) or _required_spread(spec) or ports)


def _claims(spec: Mapping[str, Any]) -> bool:
    return any("persistentVolumeClaim" in volume for volume in _dicts(spec.get("volumes")))


def _budgets(
    items: Sequence[tuple[str, dict[str, Any]]], pods: _Pods, where: str
) -> dict[str, tuple[tuple[int, ...], int]]:
    """Tasks of each budget and how many may be away; pods that no budget lets go are marked as staying."""
    found: dict[str, tuple[tuple[int, ...], int]] = {}
    covered: dict[int, str] = {}
    for path, item in items:
        space, name = _name(item, "namespace", where, path), _name(item, "name", where, path)
        allowed = _at(item, "status", "disruptionsAllowed")
        if not isinstance(allowed, int) or allowed < 0:
            raise InputError(
                f"{path}.status.disruptionsAllowed: must be 0 or more, not {allowed!r}", where=where
            )
        selector = _at(item, "spec", "selector")
        members = tuple(
            task
            for task, labels in enumerate(pods.labels)
            if pods.spaces[task] == space and isinstance(selector, dict) and wants_pod(selector, labels)
        )
        full = f"{space}/{name}"
        found[full] = members, allowed
        for task in members:
            if pods.resident[task]:
                continue
            if not allowed:
                pods.stays.setdefault(task, f"disruption budget {full} lets none go now")
            if task in covered:
                pods.stays.setdefault(task, f"two disruption budgets cover it: {covered[task]} and {full}")
            covered[task] = full
    return found


def _at(value: Any, *names: str) -> Any:
    """A field within fields; None where one of them is missing or no object."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _dict(item: Mapping[str, Any], name: str, where: str, path: str) -> dict[str, Any]:
    found = item.get(name)
    if not isinstance(found, dict):
        raise InputError(f"{path}.{name}: is missing", where=where)
    return found


def _name(item: Mapping[str, Any], which: str, where: str, path: str) -> str:
    found = _at(item, "metadata", which)
    if not isinstance(found, str) or not found:
        raise InputError(f"{path}.metadata.{which}: is missing", where=where)
    return _plain(found, where=f"{where}: {path}.metadata.{which}")


def _plain(name: str, *, where: str) -> str:
    """A name that a command does not take for an option."""
    if name.startswith("-"):
        raise InputError(f"{name!r} begins with '-', as no name of Kubernetes does", where=where)
    return name
