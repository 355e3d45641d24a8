"""Repacking of Kubernetes as a script of kubectl: rollouts of requests by use, and drains within budgets."""

from __future__ import annotations

import bisect
import json
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from kwiken.allocator.packing.documents.kubernetes import KubernetesCluster, PodContainer
from kwiken.allocator.packing.drains import ROOM, DrainStep, after
from kwiken.allocator.packing.repacking import Repacking
from kwiken.allocator.packing.tasks.packed_cluster import PackedCluster
from kwiken.base.arrays import Floats
from kwiken.base.printable import printable
from kwiken.export.yaml import comment

PATCHED: Final = ("Deployment", "StatefulSet")
MIN_CORES: Final = 0.001  # Kubernetes counts in thousandths of a core
MIN_MEMORY_GB: Final = 0.001
SAME_SHARE: Final = 0.02  # of a request; a change by less is left out
DRAIN_TIMEOUT: Final = "15m"
SURGE: Final = '{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":0,"maxSurge":1}}'
# Functions of the script. Rollouts go one at a time with one pod more, never one fewer, and are undone where
# they do not end; a node whose pods do not run elsewhere takes pods again. Both are named at the end.
_FUNCTIONS: Final = """set -u
dry= undone=
[ "${1-}" != --dry-run ] || dry=--dry-run=server

strategy() {  # NAME NAMESPACE VALUE
  kubectl patch deployment "$1" --namespace "$2" --type json $dry \\
    --patch "[{\\"op\\":\\"replace\\",\\"path\\":\\"/spec/strategy\\",\\"value\\":$3}]"
}

settled() {  # KIND NAME NAMESPACE
  kubectl rollout status "$1" "$2" --namespace "$3" --timeout=TIMEOUT
}

resize() {  # KIND NAME NAMESPACE PATCH
  own=
  if [ "$1" = deployment ]; then
    own=$(kubectl get deployment "$2" --namespace "$3" --output 'jsonpath={.spec.strategy}')
    case $own in *RollingUpdate*) strategy "$2" "$3" "$SURGE" || own= ;; *) own= ;; esac
  fi
  if ! kubectl patch "$1" "$2" --namespace "$3" --type strategic $dry --patch "$4"; then
    undone="$undone $1/$3/$2"
  elif [ -z "$dry" ] && ! settled "$1" "$2" "$3"; then
    kubectl rollout undo "$1" "$2" --namespace "$3"
    settled "$1" "$2" "$3"
    undone="$undone $1/$3/$2"
  fi
  [ -z "$own" ] || strategy "$2" "$3" "$own"
}

owners() {  # KIND and options of what to list: kind, name and namespace of the owners
  kubectl get "$@" --no-headers --output custom-columns=\\
KIND:.metadata.ownerReferences[0].kind,NAME:.metadata.ownerReferences[0].name,SPACE:.metadata.namespace
}

held() {  # NODE: Deployments and StatefulSets with pods on it
  owners pods --all-namespaces --field-selector "spec.nodeName=$1" | while read -r kind name space; do
    case $kind in
      ReplicaSet) owners replicaset "$name" --namespace "$space" </dev/null ;;
      StatefulSet) echo "$kind $name $space" ;;
    esac
  done | sort -u
}

stand() {  # lines of kind, name and namespace
  echo "$1" | { all=0; while read -r kind name space; do
    case $kind in Deployment | StatefulSet) settled "$kind" "$name" "$space" </dev/null || all=1 ;; esac
  done; exit $all; }
}

free() {  # NODE
  kubectl cordon "$1" $dry || { undone="$undone node/$1"; return; }
  those=$(held "$1")
  if kubectl drain "$1" --ignore-daemonsets --timeout=TIMEOUT $dry; then
    { [ -z "$dry" ] && ! stand "$those"; } || return
  fi
  [ -n "$dry" ] || { kubectl uncordon "$1"; stand "$those"; }
  undone="$undone node/$1"
}

""".replace("TIMEOUT", DRAIN_TIMEOUT)
_END: Final = """[ -z "$undone" ] || { echo "not done, and put back:$undone" >&2; exit 1; }
"""


def kubernetes_commands(cluster: KubernetesCluster, found: Repacking) -> str:
    """Shell script that lowers or raises requests and drains the nodes that are freed.

    Requests are patches of the pods' owners, which start their pods anew: one owner after another, those that
    give cores back first, each with one more pod until its rollout is over. All nodes are open meanwhile, so
    that there is room for that pod. Nodes are drained one after another; drains evict pods, and the server
    holds back an eviction that a disruption budget forbids. A freed node stays in use where no other node
    would have room for one more pod of every Deployment.
    """
    patches = sorted(_patches(cluster, found), key=lambda each: each[0])
    wanted = _wanted(found, {owner for _, owner, _ in patches})
    drained = [step.freed for step in found.taken if step.freed is not None]
    steps, lacking = _with_room(found, wanted)
    names = [found.packed.cluster.nodes[step.freed].name for step in steps if step.freed is not None]
    kept = [found.packed.cluster.nodes[node].name for node in drained[len(names) :]]
    skipped = sorted({kind for kind in _kinds(found) if kind not in PATCHED})
    header = [
        "Requests by use, and drains of the nodes that are freed. Read it, then run it with sh.",
        "With --dry-run the server checks every change and makes none.",
        "A patch of requests starts the pods of its owner anew, with one more pod until the rollout is over.",
        "The scheduler chooses where evicted pods go; nodes that are drained take none.",
        "What does not succeed is put back and named at the end; the exit code is 1 then.",
    ]
    if kept:
        header.append(
            f"Not drained, as room for one more pod of each Deployment: {printable(', '.join(kept))}."
        )
    if lacking:
        header.append(
            f"No node, freed or not, has room for one more pod of: {printable(', '.join(lacking))}."
        )
    if skipped:
        header.append(f"Requests of these owners are not patched: {printable(', '.join(skipped))}.")
    if not cluster.budgets_listed:
        header.append(
            "The document lists no PodDisruptionBudget; drains keep budgets all the same, and may wait."
        )
    lines = ["#!/bin/sh\n", comment(header), f"SURGE={shlex.quote(SURGE)}\n", _FUNCTIONS]
    lines += [line for _, _, line in patches]
    lines += [f"free {shlex.quote(name)}\n" for name in names]
    return "".join([*lines, _END])


def _wanted(found: Repacking, patched: Collection[str]) -> tuple[Floats, Floats]:
    """(t,) Cores and (t,) memory in GB that each task requests once the owners are patched."""
    cores, memory_gb = found.requests
    new = np.array([owner in patched for owner in found.packed.owners], dtype=np.bool_)
    return np.where(new, cores, found.packed.cores), np.where(new, memory_gb, found.packed.memory_gb)


def _with_room(found: Repacking, wanted: tuple[Floats, Floats]) -> tuple[Sequence[DrainStep], list[str]]:
    """Steps that leave room for one more pod of each Deployment, and Deployments that never have room."""
    packed, taken = found.packed, found.taken
    seen: dict[str, int] = {}  # owner to one of its tasks
    for task, owner in enumerate(packed.owners):
        if _parsed(owner)[1] == "Deployment":
            seen.setdefault(owner, task)
    lacking = set(_without_room(packed, wanted, (), seen))
    others = {owner: task for owner, task in seen.items() if owner not in lacking}
    # Fewer drains leave more room, so the last count of steps with room is found by halving.
    count = bisect.bisect_left(
        range(len(taken)),
        1,
        key=lambda last: int(any(_without_room(packed, wanted, taken[: last + 1], others))),
    )
    return taken[:count], sorted(lacking)


def _without_room(
    packed: PackedCluster,
    wanted: tuple[Floats, Floats],
    steps: Sequence[DrainStep],
    owners: Mapping[str, int],
) -> Iterator[str]:
    """Owners for one more pod of which no node has room after some steps."""
    node, nodes = after(packed.node, steps), len(packed.cluster.nodes)
    capacity = (packed.cluster.cores, packed.cluster.memory_gb)
    left = [most - np.bincount(node, amount, nodes) for most, amount in zip(capacity, wanted, strict=True)]
    opened = packed.open_nodes & (np.bincount(node, minlength=nodes) < packed.most_tasks)
    opened[[step.freed for step in steps if step.freed is not None]] = False
    beside: dict[str, list[int]] = {}
    for task, owner in enumerate(packed.owners):
        if packed.apart[task]:
            beside.setdefault(owner, []).append(int(node[task]))
    for owner, task in owners.items():
        fits = opened & packed.allowed[packed.kinds[task]]
        fits[beside.get(owner, [])] = False
        for rest, amount in zip(left, wanted, strict=True):
            fits &= rest + ROOM >= amount[task]
        if not fits.any():
            yield owner


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


def _patches(cluster: KubernetesCluster, found: Repacking) -> Iterator[tuple[float, str, str]]:
    """Cores that each patch adds to a pod, owner, and the patch as a line of the script."""
    packed = found.packed
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
        text = shlex.quote(json.dumps(patch, separators=(",", ":")))
        line = f"resize {kind.lower()} {shlex.quote(name)} {shlex.quote(space)} {text}\n"
        yield float(cores[task] - packed.cores[task]), owner, line


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
            min(one.most_cores, max(MIN_CORES, cores * _part(by_cores, place))),
            min(one.most_memory_gb, max(MIN_MEMORY_GB, memory_gb * _part(by_memory, place)))
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
        abs(new - old) > SAME_SHARE * max(old, MIN_CORES)
        for one, amounts in zip(containers, wanted, strict=True)
        for old, new in zip((one.cores, one.memory_gb), amounts, strict=True)
    )


def _text(cores: float, memory_gb: float) -> dict[str, str]:
    """Requests in units of Kubernetes, rounded down, so that they stay within limits."""
    found = {"cpu": f"{max(1, int(cores * 1000 + 1e-6))}m"}
    if memory_gb:
        found["memory"] = f"{max(1, int(memory_gb * 1e9 / 1024))}Ki"
    return found
