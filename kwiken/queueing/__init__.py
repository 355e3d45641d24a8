"""Queues: what load does to latencies, and copies to load. Replicas, waits, cancellation, pauses."""

from __future__ import annotations

from kwiken.queueing._formulas import (
    erlang_c,
    mg1_mean_wait_ms,
    mmk_latency_beyond,
    mmk_mean_wait_ms,
    sharing_mean_ms,
)
from kwiken.queueing._law import Constant, Empirical, Exponential, Law, LogNormal
from kwiken.queueing._model import LoadModel, StageModel, load_model
from kwiken.queueing._network import (
    Primaries,
    QueueSimulation,
    StageQueues,
    poisson_arrivals,
    simulate_queues,
)
from kwiken.queueing._pauses import Pauses
from kwiken.queueing._race import OverloadError
from kwiken.queueing._station import Background, Earnings, Station

__all__ = [
    "Background",
    "Constant",
    "Earnings",
    "Empirical",
    "Exponential",
    "Law",
    "LoadModel",
    "LogNormal",
    "OverloadError",
    "Pauses",
    "Primaries",
    "QueueSimulation",
    "StageModel",
    "StageQueues",
    "Station",
    "erlang_c",
    "load_model",
    "mg1_mean_wait_ms",
    "mmk_latency_beyond",
    "mmk_mean_wait_ms",
    "poisson_arrivals",
    "sharing_mean_ms",
    "simulate_queues",
]
