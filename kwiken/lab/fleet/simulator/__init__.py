"""Simulator of a cluster: a scenario in, events on arrays, and what every workload got."""

from __future__ import annotations

from kwiken.lab.fleet.simulator.manager import DETECTION_S as DETECTION_S, Manager as Manager
from kwiken.lab.fleet.simulator.outcome import FleetOutcome as FleetOutcome
from kwiken.lab.fleet.simulator.scenario import (
    FOREVER as FOREVER,
    Job as Job,
    Outage as Outage,
    Phase as Phase,
    PhaseStep as PhaseStep,
    Scenario as Scenario,
    UserReservation as UserReservation,
)
from kwiken.lab.fleet.simulator.simulation import FleetSimulation as FleetSimulation
from kwiken.lab.fleet.simulator.state import QOS as QOS
