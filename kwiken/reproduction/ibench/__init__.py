"""Results of iBench: linear pressure, knees of workloads, and scheduling by contention."""

from __future__ import annotations

from kwiken.reproduction.ibench.tables import all_parts

__all__ = ["all_parts"]
