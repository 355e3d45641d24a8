"""Outcome of the demonstration: what each placement kept, and what followed a change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.command.demo_place.traffic import ClientStream, p99_ms
from kwiken.model.nodes.placement import PlacingStatus

STEP_S: Final = 0.5  # of the time to recovery
STEADY_S: Final = 8.0  # least time for which targets must be kept to count as kept again


@dataclass(frozen=True, kw_only=True)
class ServiceOutcome:
    """One service under one placement.

    Attributes:
        status: what became of it when it was placed.
        target_ms: largest p99 latency, milliseconds.
        p99_ms: p99 latency, milliseconds; None where the service had no room, or where more than one in a
            hundred requests failed.
    """

    service: str
    status: PlacingStatus
    target_ms: float
    p99_ms: float | None
    requests: int
    failed: int
    replicas: int
    nodes: list[str]

    @property
    def met(self) -> bool:
        """Whether the target was kept."""
        return self.p99_ms is not None and self.p99_ms <= self.target_ms


@dataclass(frozen=True, kw_only=True)
class PlacedArm:
    """One placement under load.

    Attributes:
        cores: number of cores of the services' replicas.
        cost_per_hour: cost of those replicas in an hour.
        best_effort_cores: number of cores of best-effort work.
        busy: share of the machine's processors in use, by anybody, 0 to 1.
        late_p99_ms: p99 of the delay with which requests were sent, milliseconds.
    """

    scheduler: str
    services: list[ServiceOutcome]
    cores: float
    cost_per_hour: float
    best_effort_cores: float
    busy: float
    late_p99_ms: float


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """Events after a change: after a load that grew, or a node that was lost.

    Attributes:
        recovery_s: time until every target was kept again, seconds; None if that was not seen.
        p99_ms: p99 latency by service from the change on, milliseconds; None where more than one in a hundred
            requests failed.
        failed: number of requests that failed in that phase.
        actions: actions with their reasons, each after its moment in seconds since the change.
        busy: share of the machine's processors in use, by anybody, 0 to 1.
    """

    recovery_s: float | None
    p99_ms: dict[str, float | None]
    failed: int
    requests: int
    actions: list[tuple[float, str]]
    busy: float


@dataclass(frozen=True, kw_only=True)
class Loss(Recovery):
    """Events after the loss of a node.

    Attributes:
        node: name of the node that was lost.
        services: names of the services that had replicas there.
    """

    node: str
    services: list[str]


@dataclass(frozen=True, kw_only=True)
class DemoPlaceResult:
    """Result of the demonstration.

    Attributes:
        targets_ms: largest p99 latency by service, milliseconds.
        rate_per_s: rate at which the latency is to hold, by service, requests per second.
        arms: placements in the order in which they ran.
        growth: what followed the growth of a load, under the last placement.
        loss: what followed the loss of a node, under the last placement and the grown load.
    """

    targets_ms: dict[str, float]
    rate_per_s: dict[str, float]
    arms: list[PlacedArm]
    growth: Recovery
    loss: Loss


def recovery_s(
    streams: Mapping[str, ClientStream], targets_ms: Mapping[str, float], change_s: float, last_s: float
) -> float | None:
    """Time from a change after which every target is kept to the end, seconds; None if too short to tell.

    Args:
        streams: requests to each service, by name.
        targets_ms: largest p99 latency by service, milliseconds.
        change_s: moment of the change, seconds.
        last_s: moment of the last request, seconds.
    """
    steps = int((last_s - STEADY_S - change_s) / STEP_S)
    for step in range(steps + 1):
        from_s = change_s + step * STEP_S
        if all(
            p99_ms(stream.between(from_s, last_s)) <= targets_ms[name] for name, stream in streams.items()
        ):
            return step * STEP_S
    return None
