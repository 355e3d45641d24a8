"""Mapping policies: whether a job goes to reserved nodes, to rented ones, or waits (HCloud section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

# P1 is a fair coin. P2 to P4 reserve for demanding jobs, P5 to P7 until a utilisation.
MIN_QUALITIES: Final[Mapping[str, float]] = MappingProxyType({"P2": 0.8, "P3": 0.5, "P4": 0.2})
UTILISATIONS: Final[Mapping[str, float]] = MappingProxyType({"P5": 0.5, "P6": 0.7, "P7": 0.9})
POLICIES: Final = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8")
COIN: Final = 0.5


class JobRoute(StrEnum):
    """Where a job goes.

    Attributes:
        RESERVED: to a reserved node.
        ON_DEMAND: to a rented node that fits it.
        ON_DEMAND_FULL: to the largest kind of rented node.
        QUEUE: to the queue of the reserved nodes.
    """

    RESERVED = "reserved"
    ON_DEMAND = "on-demand"
    ON_DEMAND_FULL = "on-demand, full"
    QUEUE = "queue"


@dataclass(frozen=True)
class RoutedJob:
    """What the mapping knows of a job.

    Attributes:
        quality: quality that it demands, 0 to 1.
        offered: quality that 90% of the rented nodes of its kind offer, 0 to 1.
        coin: number that was drawn evenly from 0 to 1.
    """

    quality: float
    offered: float
    coin: float


@dataclass(frozen=True)
class ReservedState:
    """State of the reserved nodes.

    Attributes:
        utilisation: share of the reserved cores that are allocated, 0 to 1.
        fits: whether some reserved node has room for the job.
        soft: utilisation up to which every job goes to reserved nodes, 0 to 1.
        hard: utilisation from which on jobs wait, 0 to 1.
        wait_s: estimated wait for reserved nodes, seconds.
        spin_up_s: time from the order of a full node to its start, seconds.
    """

    utilisation: float
    fits: bool
    soft: float
    hard: float
    wait_s: float
    spin_up_s: float


def route(policy: str, job: RoutedJob, state: ReservedState) -> JobRoute:
    """Where a policy sends a job.

    Args:
        policy: one of `POLICIES`; the last is the dynamic one.

    Raises:
        KeyError: no such policy.
    """
    if policy == "P8":
        return dynamic_route(job, state)
    if policy == "P1":
        wanted = job.coin < COIN
    elif policy in MIN_QUALITIES:
        wanted = job.quality > MIN_QUALITIES[policy]
    else:  # jobs beyond the limit are rented for
        return (
            JobRoute.RESERVED
            if state.utilisation < UTILISATIONS[policy] and state.fits
            else JobRoute.ON_DEMAND
        )
    if not wanted:
        return JobRoute.ON_DEMAND
    return JobRoute.RESERVED if state.fits else JobRoute.QUEUE


def dynamic_route(job: RoutedJob, state: ReservedState) -> JobRoute:
    """Where the dynamic policy sends a job (HCloud section 3.2).

    There are three cases:
    1. Below the soft limit, or up to the hard one with a job that rented nodes would not suit: reserved.
       Where no reserved node has room, a job that rented nodes suit is rented for, and another one waits.
    2. From the soft limit on, a job that rented nodes suit: on demand.
    3. From the hard limit on, another job waits, unless its wait is longer than the start of a full node.
    """
    suits = job.offered > job.quality
    if state.utilisation < state.soft and state.fits:
        return JobRoute.RESERVED
    if suits:
        return JobRoute.ON_DEMAND
    if state.utilisation < state.hard and state.fits:
        return JobRoute.RESERVED
    return JobRoute.ON_DEMAND_FULL if state.wait_s > state.spin_up_s else JobRoute.QUEUE
