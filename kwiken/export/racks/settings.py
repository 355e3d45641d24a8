"""Plan of racks as settings of Spark, Yarn and Kubernetes, with notes on the limits of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kwiken.base.printable import printable
from kwiken.batch.racks.document import PlannedJob, RackPlan
from kwiken.export.placements.groups import name_in_kubernetes
from kwiken.export.yaml import comment, dump

RACK_LABEL: Final = "topology.kubernetes.io/rack"
QUEUE: Final = "kwiken"
CLASSES: Final = 10  # priority classes and queues; jobs next to each other in the plan share one
HIGHEST: Final = 100_000  # priority of the first class; that of services should be higher
RACK_WAIT_S: Final = 30  # for a slot in the job's racks before any other is taken
NODE_WAIT_S: Final = 3
MAX_KUBERNETES_NAME: Final = 52  # characters, with room for a priority behind
MAX_LABEL: Final = 63

UNTOLD: Final[Mapping[str, tuple[str, ...]]] = {
    "spark": (
        "Spark gives an application one node label; a job of several racks only waits for racks with data.",
        "Replicas of the input: HDFS takes favoured nodes when a file is written, not later.",
        "Start times are no settings of Spark: priorities stand for the order of the plan.",
    ),
    "yarn": (
        "Constraints on node attributes are hard: a job waits for a slot on its racks, also when they fail.",
        "Replicas of the input: HDFS takes favoured nodes when a file is written, not later.",
        "Start times are no settings of Yarn: priorities stand for the order of the plan.",
    ),
    "kubernetes": (
        "Replicas of the input: volumes follow the topology of their storage class.",
        "Start times are no settings of Kubernetes: priorities stand for the order of the plan.",
    ),
}


def _classes(plan: RackPlan) -> dict[str, int]:
    """Class of each job's priority, from 0, which is the highest."""
    size = -(-len(plan.jobs) // CLASSES)
    return {job.name: job.priority // size for job in plan.jobs}


def spark_settings(plan: RackPlan) -> str:
    """Options of `spark-submit` for each job, as a shell script of arrays."""
    lines = [comment(["Options for spark-submit, one line a job.", *UNTOLD["spark"]])]
    queue = _classes(plan)
    for job in plan.jobs:
        options = [
            f"--queue {QUEUE}.p{queue[job.name]}",
            f"--conf spark.locality.wait.node={NODE_WAIT_S}s",
            f"--conf spark.locality.wait.rack={RACK_WAIT_S}s",
            f"--conf spark.yarn.priority={len(plan.jobs) - job.priority}",
        ]
        if len(job.racks) == 1:
            label = _label(job.racks[0])
            options.append(f"--conf spark.yarn.executor.nodeLabelExpression={label}")
        lines.append(comment([_described(job)]))
        lines.append(" ".join(options) + "\n")
    return "".join(lines)


def yarn_settings(plan: RackPlan) -> str:
    """Attributes of nodes, queues of the capacity scheduler, and a placement constraint for each job."""
    queue = _classes(plan)
    classes = sorted(set(queue.values()))
    share = 100 // len(classes)
    prefix = f"yarn.scheduler.capacity.root.{QUEUE}"
    lines = [
        comment(["Commands of yarn, lines of capacity-scheduler.xml, constraints of jobs.", *UNTOLD["yarn"]]),
        comment(["Give each node its rack, of " + printable(", ".join(plan.racks), most=1000) + ":"]),
        "yarn nodeattributes -add 'HOST:rack(STRING)=RACK'\n",
        f"{prefix}.queues={','.join(f'p{number}' for number in classes)}\n",
        f"{prefix}.ordering-policy=priority-utilization\n",
    ]
    for number in classes:
        capacity = share if number else 100 - share * (len(classes) - 1)
        lines.append(f"{prefix}.p{number}.capacity={capacity}\n")
        lines.append(f"{prefix}.p{number}.maximum-capacity=100\n")
        lines.append(f"{prefix}.p{number}.priority={CLASSES - number}\n")
    for job in plan.jobs:
        each = [f"rm.yarn.io/rack={_label(rack)}" for rack in job.racks]
        racks = each[0] if len(each) == 1 else f"OR({':'.join(each)})"
        lines.append(comment([_described(job)]))
        lines.append(f"-queue {QUEUE}.p{queue[job.name]} -placement_spec '{racks}'\n")
    return "".join(lines)


def kubernetes_settings(plan: RackPlan) -> str:
    """Priority classes, and for each job a patch of its pods: affinity to its racks and its class."""
    queue = _classes(plan)
    header = [
        f"Priority classes, then a patch of pods for each job. Nodes need the label {RACK_LABEL}.",
        *UNTOLD["kubernetes"],
    ]
    documents: list[tuple[list[str], Any]] = [
        (
            [] if number else ["Services should have a higher priority than all of these."],
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": f"{QUEUE}-p{number}"},
                "value": HIGHEST - number,
                "preemptionPolicy": "Never",
            },
        )
        for number in sorted(set(queue.values()))
    ]
    names = _kubernetes_names(plan)
    documents += [([_described(job)], _pod_patch(job, names[job.name], queue[job.name])) for job in plan.jobs]
    return dump(documents, header)


def _kubernetes_names(plan: RackPlan) -> dict[str, str]:
    """Name of each job in Kubernetes; jobs whose names are alike there get their priority behind."""
    plain = {job.name: name_in_kubernetes(job.name)[:MAX_KUBERNETES_NAME].strip("-") for job in plan.jobs}
    counts = Counter(plain.values())
    return {
        job.name: plain[job.name]
        if plain[job.name] and counts[plain[job.name]] == 1
        else f"{plain[job.name] or 'job'}-r{job.priority}"
        for job in plan.jobs
    }


def _pod_patch(job: PlannedJob, name: str, number: int) -> dict[str, Any]:
    racks = {"key": RACK_LABEL, "operator": "In", "values": [_label(rack) for rack in job.racks]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [racks]}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "priorityClassName": f"{QUEUE}-p{number}",
                    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
                }
            }
        },
    }


def _label(rack: str) -> str:
    """Name of a rack as labels and attributes take it."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", rack)[:MAX_LABEL].strip("_.-") or "rack"


def _described(job: PlannedJob) -> str:
    racks = ", ".join(job.racks)
    return printable(
        f"{job.name}: racks {racks}; input also on {job.further_rack}; planned from {job.start_s:.0f} s for "
        f"{job.took_s:.0f} s",
        most=1000,
    )


def untold(program: str) -> Iterator[str]:
    """Sentences on what a program cannot be told of a plan."""
    yield from UNTOLD[program]


RACK_PROGRAMS: Final[Mapping[str, Callable[[RackPlan], str]]] = {
    "spark": spark_settings,
    "yarn": yarn_settings,
    "kubernetes": kubernetes_settings,
}
