"""Lines as queues of Kueue: a flavor, a cluster queue and a local queue for each, in one cohort."""

from __future__ import annotations

import re
from typing import Any, Final

from kwiken.allocator.waiting.document import LinesDocument, PlannedLine
from kwiken.base.errors import InputError
from kwiken.base.printable import printable
from kwiken.export.yaml import dump

API: Final = "kueue.x-k8s.io/v1beta2"
LABEL: Final = "kwiken/line"  # of a node: the line whose pool it belongs to
COHORT: Final = "kwiken"
NAMESPACE: Final = "default"
MAX_NAME: Final = 63
MAX_QUEUES: Final = 64  # flavors that Kueue takes
SHOWN_NODES: Final = 20
MIB_PER_GB: Final = 1e9 / (1 << 20)
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z")


def kueue_queues(document: LinesDocument, *, where: str) -> str:
    """Resource flavors, cluster queues and local queues in YAML.

    A pool is a flavor: its nodes carry a label. The queue of a line has the pool as its quota. The pools of
    the neighbouring lines are further flavors without a quota, so that a job goes up or down by borrowing,
    the better pool first. A head that does not fit holds up nobody (`BestEffortFIFO`).

    Args:
        where: source to name in errors, such as a file's path.

    Raises:
        InputError: for a name that Kubernetes does not take, or more lines than Kueue takes flavors.
    """
    lines = document.lines
    if len(lines) > MAX_QUEUES:
        raise InputError(f"lines: Kueue takes at most {MAX_QUEUES} flavors, not {len(lines)}", where=where)
    for place, line in enumerate(lines):
        if not _NAME.match(line.name) or len(line.name) > MAX_NAME:
            raise InputError(f"lines[{place}].name: {line.name!r} is no name of Kubernetes", where=where)
    documents: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    for place, line in enumerate(lines):
        neighbours = [lines[other] for other in (place - 1, place + 1) if 0 <= other < len(lines)]
        documents.append(((_labels(line),), _flavor(line)))
        documents.append(((_words(line),), _cluster_queue(line, neighbours)))
        documents.append(((), _local_queue(line)))
    return dump(
        documents,
        [
            f"Queues for the lines of {printable(document.source)}, in the cohort {COHORT}.",
            (
                "Kueue borrows whenever a pool has quota left. That a job goes up only while nobody waits "
                "there, and down before its budget of waiting is spent, has no setting in Kueue."
            ),
        ],
    )


def _words(line: PlannedLine) -> str:
    return f"{line.name}: quality above {line.above:g}; {len(line.jobs)} jobs, {len(line.nodes)} nodes."


def _labels(line: PlannedLine) -> str:
    """How the nodes of a pool get their label."""
    if not line.nodes:
        return f"No node belongs to the pool of {line.name} while it is empty."
    shown = " ".join(printable(name) for name in line.nodes[:SHOWN_NODES])
    more = len(line.nodes) - SHOWN_NODES
    return f"kubectl label node {shown}{f' (and {more} more)' if more > 0 else ''} {LABEL}={line.name}"


def _flavor(line: PlannedLine) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "ResourceFlavor",
        "metadata": {"name": line.name},
        "spec": {"nodeLabels": {LABEL: line.name}},
    }


def _cluster_queue(line: PlannedLine, neighbours: list[PlannedLine]) -> dict[str, Any]:
    flavors = [
        _quota(line.name, line.cores, line.memory_gb),
        *(_quota(other.name, 0.0, 0.0) for other in neighbours),
    ]
    return {
        "apiVersion": API,
        "kind": "ClusterQueue",
        "metadata": {"name": line.name},
        "spec": {
            "cohortName": COHORT,
            "queueingStrategy": "BestEffortFIFO",
            "namespaceSelector": {},
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never"},
            "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": flavors}],
        },
    }


def _quota(flavor: str, cores: float, memory_gb: float) -> dict[str, Any]:
    return {
        "name": flavor,
        "resources": [
            {"name": "cpu", "nominalQuota": f"{round(1000 * cores)}m"},
            {"name": "memory", "nominalQuota": f"{int(MIB_PER_GB * memory_gb)}Mi"},
        ],
    }


def _local_queue(line: PlannedLine) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "LocalQueue",
        "metadata": {"name": line.name, "namespace": NAMESPACE},
        "spec": {"clusterQueue": line.name},
    }
