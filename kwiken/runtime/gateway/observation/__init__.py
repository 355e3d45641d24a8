"""Observation by a gateway: event loop, own figures, and replicas."""

from __future__ import annotations

from kwiken.runtime.gateway.observation.loop_lag import (
    ITERATIONS_TO_START as ITERATIONS_TO_START,
    loop_iterations_of as loop_iterations_of,
)
from kwiken.runtime.gateway.observation.replica_watch import watch_replicas as watch_replicas
from kwiken.runtime.gateway.observation.self_measurement import SelfMeasurement as SelfMeasurement
