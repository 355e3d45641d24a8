"""Observation by a gateway: of its event loop, of its own figures, and of its replicas."""

from __future__ import annotations

from kwiken.runtime.gateway.observation.loop_lag import ITERATIONS_TO_START, loop_iterations_of
from kwiken.runtime.gateway.observation.replica_watch import watch_replicas
from kwiken.runtime.gateway.observation.self_measurement import SelfMeasurement

__all__ = ["ITERATIONS_TO_START", "SelfMeasurement", "loop_iterations_of", "watch_replicas"]
