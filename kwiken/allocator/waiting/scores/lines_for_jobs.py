"""Lines for a list of jobs on a cluster, chosen from what they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.waiting.document import LINES_VERSION, LinedJob, LinesDocument, PlannedLine
from kwiken.allocator.waiting.quality_classes import quantile_classes
from kwiken.allocator.waiting.scores.suitability import SuitableQuality
from kwiken.model.nodes.nodes import Cluster

MET: Final = 0.95  # share of its best performance from which a job's target is met


def planned_lines(
    requests: Sequence[PlacementRequest], cluster: Cluster, *, count: int, source: str
) -> LinesDocument:
    """Lines by suitability, in classes that equally many of the jobs belong to.

    Args:
        requests: jobs, one or more.
        count: number of lines at most, from 1 to 100.
        source: files that the requests were made from.
    """
    quality = SuitableQuality(requests, cluster, MET)
    needs = [quality.of_job(one) for one in requests]
    classes = quantile_classes(needs, count)
    ledger = NodeLedger(cluster)
    pools = np.array([classes.of(quality.of_node(ledger, node)) for node in range(len(cluster.nodes))])
    lines = []
    for number in range(classes.count):
        members = np.flatnonzero(pools == number)
        jobs = [
            LinedJob(name=one.name, quality=round(need, 3), suits=round(1 - need / 100, 5))
            for one, need in zip(requests, needs, strict=True)
            if classes.of(need) == number
        ]
        lines.append(
            PlannedLine(
                name=f"line-{number}",
                above=round(classes.cuts[number], 6) if number < len(classes.cuts) else 0.0,
                jobs=jobs,
                nodes=[cluster.nodes[node].name for node in members.tolist()],
                cores=float(cluster.cores[members].sum()),
                memory_gb=float(cluster.memory_gb[members].sum()),
            )
        )
    return LinesDocument(version=LINES_VERSION, source=source, lines=lines)
