"""Simulated fleets: scenarios on clusters too large to own, played under any scheduler of the allocator."""

from __future__ import annotations

from kwiken.fleet.catalogue import SCENARIOS
from kwiken.fleet.generators import CORES, MAX_REPLICAS, MEMORY_GB, replica_rows, score_rows, size_rows
from kwiken.fleet.managers import CONTESTANTS, simulate
from kwiken.fleet.outcome import Outcome

__all__ = [
    "CONTESTANTS",
    "CORES",
    "MAX_REPLICAS",
    "MEMORY_GB",
    "SCENARIOS",
    "Outcome",
    "replica_rows",
    "score_rows",
    "simulate",
    "size_rows",
]
