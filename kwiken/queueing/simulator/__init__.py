"""Queueing simulator: stations, replicas, races of calls with their copies."""

from __future__ import annotations

from kwiken.queueing.simulator.calls import Calls
from kwiken.queueing.simulator.network import Primaries, QueueSimulation, poisson_arrivals, simulate_queues
from kwiken.queueing.simulator.race import OverloadError
from kwiken.queueing.simulator.service_times import Constant, Empirical, LogNormal, ServiceTimes
from kwiken.queueing.simulator.stage import MAX_STAGE_CALLS, serve
from kwiken.queueing.simulator.station import Background, Cancel, Dispatch, Earnings, Station

__all__ = [
    "MAX_STAGE_CALLS",
    "Background",
    "Calls",
    "Cancel",
    "Constant",
    "Dispatch",
    "Earnings",
    "Empirical",
    "LogNormal",
    "OverloadError",
    "Primaries",
    "QueueSimulation",
    "ServiceTimes",
    "Station",
    "poisson_arrivals",
    "serve",
    "simulate_queues",
]
