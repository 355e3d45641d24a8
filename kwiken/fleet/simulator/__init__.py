"""Simulator of a cluster: a scenario in, events on arrays, and what every workload got."""

from __future__ import annotations

from kwiken.fleet.simulator.outcome import Outcome
from kwiken.fleet.simulator.scenario import (
    FOREVER,
    Job,
    Outage,
    Phase,
    Scenario,
    Step,
    UserReservation,
)
from kwiken.fleet.simulator.simulation import DETECTION_S, Manager, Simulation
from kwiken.fleet.simulator.state import QOS

__all__ = [
    "DETECTION_S",
    "FOREVER",
    "QOS",
    "Job",
    "Manager",
    "Outage",
    "Outcome",
    "Phase",
    "Scenario",
    "Simulation",
    "Step",
    "UserReservation",
]
