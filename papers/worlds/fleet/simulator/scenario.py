"""Scenario: a cluster, arriving workloads, and changes of both over time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from kwiken.allocator.workloads.profile import Size, WorkloadProfile
from kwiken.allocator.workloads.workload import Workload
from kwiken.model.nodes.nodes import Cluster

FOREVER: Final = math.inf


@dataclass(frozen=True, eq=False)
class Phase:
    """Stretch of a workload's life in which its behaviour stays the same.

    Attributes:
        work: work until the phase ends, in the unit of the target's performance times seconds; infinite for a
            service, which ends by the clock.
        reference: performance that counts as 1, work per second: that of the best platform alone, or the
            target.
    """

    truth: WorkloadProfile
    work: float
    reference: float


@dataclass(frozen=True)
class PhaseStep:
    """Change of a service's load.

    Attributes:
        at_s: time since the service started, in seconds.
        factor: load from then on, as a factor of the target's rate, above 0.
    """

    at_s: float
    factor: float


@dataclass(frozen=True)
class UserReservation:
    """Reservation by a user who is asked for resources instead of a target."""

    size: Size
    replicas: int


@dataclass(frozen=True, eq=False)
class Job:
    """One workload of a scenario.

    Attributes:
        arrival_s: time of arrival, in seconds.
        phases: phases in order, one or more. A service has one.
        duration_s: seconds that a service stays once it runs; infinite for a batch job, which ends with its
            work.
        steps: changes of a service's load, in order.
        reserved: what its user reserves, whatever the manager knows; None for what the target needs by the
            manager's predictions. Managers that choose sizes themselves do not read it.
    """

    workload: Workload
    arrival_s: float
    phases: tuple[Phase, ...]
    duration_s: float = FOREVER
    steps: tuple[PhaseStep, ...] = ()
    reserved: UserReservation | None = None


@dataclass(frozen=True)
class Outage:
    """Failure of a node: what runs there is lost.

    Attributes:
        down_s: time of the failure, in seconds.
        up_s: time from which the node takes work again, in seconds; infinite for never.
    """

    node: int
    down_s: float
    up_s: float = FOREVER


@dataclass(frozen=True, eq=False)
class Scenario:
    """Events on a simulated cluster.

    Attributes:
        jobs: workloads, in order of arrival.
        look_ahead: number of waiting jobs that are tried, in order, when room appears; 1 keeps strict order.
    """

    name: str
    cluster: Cluster
    jobs: tuple[Job, ...]
    outages: tuple[Outage, ...] = ()
    look_ahead: int = 1
