"""Quality by sums of pressure, as published: what a job causes and what a node still bears (ARQ, 2.2)."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import PlacementRequest
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.base.arrays import Floats, Ints

WHOLE: Final = 100.0
# The source's resources. The three kinds of work of a processor are shared by quota and have no score.
SCORED: Final = np.array([place for place, name in enumerate(SOURCES) if not name.startswith("cpu-")])


def job_quality(request: PlacementRequest) -> float:
    """Quality of node that a job needs, from 0 to 100: the mean pressure that it causes, in percent.

    Args:
        request: job with its predicted scores.
    """
    return WHOLE * float(np.minimum(request.caused[SCORED], 1.0).mean())


def offered_by_class(features: Floats) -> Floats:
    """Pressure that an empty node of each class tolerates, as a share of the best class.

    Args:
        features: (c, s) what a node of each class has of each source, above 0, in any unit of the source.

    Returns:
        (c, s) shares, above 0 and at most 1.
    """
    return np.asarray(features / features.max(axis=0))


def node_qualities(ledger: NodeLedger, offered: Floats, nodes: Ints) -> Floats:
    """Quality that nodes offer to one more job, from 0 to 100.

    On each source, a node offers what its hardware has beyond the pressure of its residents, and at most the
    pressure that every resident can still bear.

    Args:
        offered: (c, s) pressure that an empty node of each class tolerates, a share.
        nodes: (m,) indices of nodes.

    Returns:
        (m,) mean over the sources, in percent.
    """
    classes = ledger.cluster.class_of[nodes]
    room = offered[classes].T[SCORED] - np.minimum(ledger.pressure[SCORED][:, nodes], 1.0)
    left = np.minimum(room, ledger.slack[SCORED][:, nodes])
    return np.asarray(WHOLE * np.clip(left, 0.0, 1.0).mean(axis=0))
