"""Repacking of Kubernetes as commands of kubectl: requests by use, and drains within the budgets."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any, Final

from kwiken.allocator.packing.documents.kubernetes import KubernetesCluster, PodContainer
from kwiken.allocator.packing.repacking import Repacking
from kwiken.base.printable import printable
from kwiken.export.yaml import comment

PATCHED: Final = ("Deployment", "StatefulSet")
LEAST_CORES: Final = 0.001  # Kubernetes counts in thousandths of a core
LEAST_MEMORY_GB: Final = 0.001
SAME_SHARE: Final = 0.02  # of a request; a change by less is left out
DRAIN_TIMEOUT: Final = "15m"


def kubernetes_commands(cluster: KubernetesCluster, found: Repacking) -> str:
    """Shell script that lowers or raises requests and drains the nodes that are freed.

    Nodes are cordoned first, so that no pod is started on a node that is about to be drained. Requests are
    patches of the pods' owners, which start their pods anew by their own rules; where a disruption budget
    covers them, no pod ends before its successor is ready. Drains evict pods, and the server holds back an
    eviction that a budget forbids.
    """
    freed = [step.freed for step in found.taken if step.freed is not None]
    names = [found.packed.cluster.nodes[node].name for node in freed]
    patches = list(_patches(cluster, found))
    skipped = sorted({kind for kind in _kinds(found) if kind not in PATCHED})
    header = [
        "Requests by use, and drains of the nodes that are freed. Read it, then run it with sh.",
        "A patch of requests starts the pods of its owner anew, by the owner's own update rules.",
        "The scheduler chooses where evicted pods go; nodes that are drained take none.",
    ]
    if skipped:
        header.append(f"Requests of these owners are not patched: {printable(', '.join(skipped))}.")
    if not cluster.budgets_listed:
        header.append(
            "The document lists no PodDisruptionBudget; drains keep budgets all the same, and may wait."
        )
    lines = ["#!/bin/sh\n", comment(header), "set -eu\n"]
    if names:
        lines.append(f"kubectl cordon {' '.join(map(shlex.quote, names))}\n")
    lines += patches
    lines += [
        f"kubectl drain {shlex.quote(name)} --ignore-daemonsets --timeout={DRAIN_TIMEOUT}\n" for name in names
    ]
    return "".join(lines)


def _kinds(found: Repacking) -> Iterator[str]:
    """Kinds of the owners of tasks that could have other requests."""
    for task, owner in enumerate(found.packed.owners):
        if found.use.known[task] and not found.packed.resident[task]:
            yield _parsed(owner)[1]


def _parsed(owner: str) -> tuple[str, str, str]:
    """Namespace, kind and name of an owner; a pod without owner stands for itself."""
    space, _, rest = owner.partition("/")
    kind, separator, name = rest.partition("/")
    return (space, kind, name) if separator else (space, "Pod", rest)


def _patches(cluster: KubernetesCluster, found: Repacking) -> Iterator[str]:
    packed = found.packed
    guarded = {task for tasks, _ in packed.budgets.values() for task in tasks}
    cores, memory_gb = found.requests
    seen: set[str] = set()
    for task, owner in enumerate(packed.owners):
        space, kind, name = _parsed(owner)
        if owner in seen or kind not in PATCHED or not found.use.known[task]:
            continue
        seen.add(owner)
        containers = cluster.containers[task]
        wanted = _shared(containers, float(cores[task]), float(memory_gb[task]))
        if not _differs(containers, wanted):
            continue
        spec: dict[str, Any] = {}
        for container, amounts in zip(containers, wanted, strict=True):
            spec.setdefault("initContainers" if container.sidecar else "containers", []).append(
                {"name": container.name, "resources": {"requests": _text(*amounts)}}
            )
        patch: dict[str, Any] = {"spec": {"template": {"spec": spec}}}
        if kind == "Deployment" and task in guarded:
            rolling = {"maxUnavailable": 0, "maxSurge": 1}
            patch["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
        text = shlex.quote(json.dumps(patch, separators=(",", ":")))
        named = f"{kind.lower()} {shlex.quote(name)} --namespace {shlex.quote(space)}"
        yield f"kubectl patch {named} --type strategic --patch {text}\n"


def _shared(
    containers: tuple[PodContainer, ...], cores: float, memory_gb: float
) -> list[tuple[float, float]]:
    """Requests of a pod, shared among its containers as the stated ones are, and within their limits.

    Memory of 0 is not known.
    """
    by_cores, by_memory = (
        [one.cores for one in containers],
        [one.memory_gb for one in containers],
    )
    return [
        (
            min(one.most_cores, max(LEAST_CORES, cores * _part(by_cores, place))),
            min(one.most_memory_gb, max(LEAST_MEMORY_GB, memory_gb * _part(by_memory, place)))
            if memory_gb
            else 0.0,
        )
        for place, one in enumerate(containers)
    ]


def _part(stated: list[float], place: int) -> float:
    total = sum(stated)
    return stated[place] / total if total > 0 else 1 / len(stated)


def _differs(containers: tuple[PodContainer, ...], wanted: list[tuple[float, float]]) -> bool:
    return any(
        abs(new - old) > SAME_SHARE * max(old, LEAST_CORES)
        for one, amounts in zip(containers, wanted, strict=True)
        for old, new in zip((one.cores, one.memory_gb), amounts, strict=True)
    )


def _text(cores: float, memory_gb: float) -> dict[str, str]:
    """Requests in units of Kubernetes, rounded down, so that they stay within limits."""
    found = {"cpu": f"{max(1, int(cores * 1000 + 1e-6))}m"}
    if memory_gb:
        found["memory"] = f"{max(1, int(memory_gb * 1e9 / 1024))}Ki"
    return found
