"""Notes on a profile: facts that a reader of its plan should know. The command line words them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kwiken.model.profile.change_over_time import Drift


@dataclass(frozen=True)
class LatenciesContradict:
    """Latencies of requests contradict those of their stages.

    Attributes:
        share: share of the requests that are contradicted, 0 to 1.
        tolerance: relative difference from which a request counts, as a share of its latency.
        latency_ms: latency of that request, milliseconds.
        path_ms: longest path through the latencies of its stages, milliseconds.
    """

    share: float
    tolerance: float
    request: int
    latency_ms: float
    path_ms: float


@dataclass(frozen=True)
class IdempotenceUnknown:
    """Copies go to stages of which traces do not record whether their calls may run twice."""

    stages: tuple[str, ...]


@dataclass(frozen=True)
class StagesChanged:
    """Stages changed while they were traced, so time-outs may fit later requests badly.

    Attributes:
        changes: changes by stage, most significant first.
    """

    changes: tuple[Drift, ...]


ProfileNote: TypeAlias = LatenciesContradict | IdempotenceUnknown | StagesChanged
