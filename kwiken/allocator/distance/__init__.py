"""Distance: calls between workloads times how far they go, and places that bring callers near callees."""

from __future__ import annotations

from kwiken.allocator.distance.crossing import (
    CrossingCalls as CrossingCalls,
    Crossings as Crossings,
)
from kwiken.allocator.distance.demand import TrafficDemand as TrafficDemand, demand_of as demand_of
from kwiken.allocator.distance.improvement import NearbyScheduler as NearbyScheduler
