"""Simulated fleets: scenarios on clusters too large to own, played under any scheduler of the allocator."""

from __future__ import annotations

from kwiken.fleet.catalogue import SCENARIOS
from kwiken.fleet.generators import MAX_REPLICAS, replica_rows, score_rows, size_rows
from kwiken.fleet.managers import CONTESTANTS, simulate

__all__ = [
    "CONTESTANTS",
    "MAX_REPLICAS",
    "SCENARIOS",
    "replica_rows",
    "score_rows",
    "simulate",
    "size_rows",
]
