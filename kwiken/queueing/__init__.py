"""Queues: what load does to latencies, and copies to load. Replicas, waits, cancellation, pauses."""

from __future__ import annotations

from kwiken.queueing._apart import load_model, measured_utilisation
from kwiken.queueing._formulas import (
    erlang_c,
    mg1_mean_wait_ms,
    mmk_latency_beyond,
    mmk_mean_wait_ms,
    sharing_mean_ms,
)
from kwiken.queueing._guard import QUIET, Guard, Look, guard, guards, look, plan_hurts_above
from kwiken.queueing._law import Constant, Empirical, Exponential, Law, LogNormal
from kwiken.queueing._loaded import LoadedStage, LoadSimulation, policies_of, simulate_load
from kwiken.queueing._model import LoadModel, StageModel
from kwiken.queueing._network import (
    Primaries,
    QueueSimulation,
    StageQueues,
    poisson_arrivals,
    simulate_queues,
)
from kwiken.queueing._pauses import Pauses
from kwiken.queueing._race import OverloadError
from kwiken.queueing._settle import Settlement, settle, under_load
from kwiken.queueing._station import Background, Cancel, Discipline, Dispatch, Earnings, Station

__all__ = [
    "QUIET",
    "Background",
    "Cancel",
    "Constant",
    "Discipline",
    "Dispatch",
    "Earnings",
    "Empirical",
    "Exponential",
    "Guard",
    "Law",
    "LoadModel",
    "LoadSimulation",
    "LoadedStage",
    "LogNormal",
    "Look",
    "OverloadError",
    "Pauses",
    "Primaries",
    "QueueSimulation",
    "Settlement",
    "StageModel",
    "StageQueues",
    "Station",
    "erlang_c",
    "guard",
    "guards",
    "load_model",
    "look",
    "measured_utilisation",
    "mg1_mean_wait_ms",
    "mmk_latency_beyond",
    "mmk_mean_wait_ms",
    "plan_hurts_above",
    "poisson_arrivals",
    "policies_of",
    "settle",
    "sharing_mean_ms",
    "simulate_load",
    "simulate_queues",
    "under_load",
]
