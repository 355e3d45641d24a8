"""Results of iBench: linear pressure, knees of workloads, and scheduling by contention."""

from __future__ import annotations

from kwiken.lab.reproduction.allocator.ibench.tables import all_parts as all_parts
