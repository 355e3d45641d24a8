"""Simulator of a cluster: a scenario in, events on arrays, and what every workload got."""

from __future__ import annotations

from kwiken.lab.fleet.simulator.outcome import Outcome as Outcome
from kwiken.lab.fleet.simulator.scenario import (
    FOREVER as FOREVER,
    Job as Job,
    Outage as Outage,
    Phase as Phase,
    Scenario as Scenario,
    Step as Step,
    UserReservation as UserReservation,
)
from kwiken.lab.fleet.simulator.simulation import (
    DETECTION_S as DETECTION_S,
    Manager as Manager,
    Simulation as Simulation,
)
from kwiken.lab.fleet.simulator.state import QOS as QOS
