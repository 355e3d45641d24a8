"""Workloads: targets, measurements, and predictions of performance and contention with their uncertainty."""

from __future__ import annotations

from kwiken.workloads.profile import (
    Estimate,
    Size,
    WorkloadProfile,
    profiles_from_json,
    profiles_to_json,
)
from kwiken.workloads.sources import SOURCES
from kwiken.workloads.workload import Measure, Spread, Target, Workload, workloads_from_toml

__all__ = [
    "SOURCES",
    "Estimate",
    "Measure",
    "Size",
    "Spread",
    "Target",
    "Workload",
    "WorkloadProfile",
    "profiles_from_json",
    "profiles_to_json",
    "workloads_from_toml",
]
