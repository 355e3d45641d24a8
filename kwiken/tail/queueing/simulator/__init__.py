"""Queueing simulator: stations, replicas, races of calls with their copies."""

from __future__ import annotations

from kwiken.tail.queueing.simulator.calls import SimulatedCalls as SimulatedCalls
from kwiken.tail.queueing.simulator.network import (
    Primaries as Primaries,
    QueueSimulation as QueueSimulation,
    poisson_arrivals as poisson_arrivals,
    simulate_queues as simulate_queues,
)
from kwiken.tail.queueing.simulator.pauses import Pauses as Pauses
from kwiken.tail.queueing.simulator.race import UnstableStageError as UnstableStageError
from kwiken.tail.queueing.simulator.service_times import (
    Constant as Constant,
    Empirical as Empirical,
    LogNormal as LogNormal,
    ServiceTimes as ServiceTimes,
)
from kwiken.tail.queueing.simulator.stage import MAX_STAGE_CALLS as MAX_STAGE_CALLS, serve as serve
from kwiken.tail.queueing.simulator.station import (
    Background as Background,
    Cancel as Cancel,
    Dispatch as Dispatch,
    Earnings as Earnings,
    Station as Station,
)
