"""Capacity: replicas, nodes and reissues of a service, sized together for a p99 at the least cost."""

from __future__ import annotations

from kwiken.capacity.arms import Arm, Outcome
from kwiken.capacity.settings import MAX_REISSUE, SizeSettings
from kwiken.capacity.study import FrontierPoint, SizeStudy, UnmetTargetError, study_size
from kwiken.capacity.supply import DEFAULT_MEMORY_GB, StageNeed, StageSize

__all__ = [
    "DEFAULT_MEMORY_GB",
    "MAX_REISSUE",
    "Arm",
    "FrontierPoint",
    "Outcome",
    "SizeSettings",
    "SizeStudy",
    "StageNeed",
    "StageSize",
    "UnmetTargetError",
    "study_size",
]
