"""Queues: what load does to latencies, and copies to load. Replicas, waits, cancellation."""

from __future__ import annotations

from kwiken.queueing._apart import load_model, measured_utilisation
from kwiken.queueing._guard import QUIET, Guard, Look, guard, guards, look, plan_hurts_above
from kwiken.queueing._law import Constant, Empirical, Law, LogNormal
from kwiken.queueing._loaded import LoadedStage, LoadSimulation, policies_of, simulate_load
from kwiken.queueing._model import LoadModel, StageModel
from kwiken.queueing._network import (
    Primaries,
    QueueSimulation,
    StageQueues,
    poisson_arrivals,
    simulate_queues,
)
from kwiken.queueing._race import OverloadError
from kwiken.queueing._settle import Settlement, settle, under_load
from kwiken.queueing._station import Background, Cancel, Dispatch, Earnings, Station

__all__ = [
    "QUIET",
    "Background",
    "Cancel",
    "Constant",
    "Dispatch",
    "Earnings",
    "Empirical",
    "Guard",
    "Law",
    "LoadModel",
    "LoadSimulation",
    "LoadedStage",
    "LogNormal",
    "Look",
    "OverloadError",
    "Primaries",
    "QueueSimulation",
    "Settlement",
    "StageModel",
    "StageQueues",
    "Station",
    "guard",
    "guards",
    "load_model",
    "look",
    "measured_utilisation",
    "plan_hurts_above",
    "poisson_arrivals",
    "policies_of",
    "settle",
    "simulate_load",
    "simulate_queues",
    "under_load",
]
