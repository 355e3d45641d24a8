"""Capacity: replicas, nodes and reissues of a service, sized together for a p99 at the least cost."""

from __future__ import annotations

from kwiken.allocator.capacity.outcomes import SizeOutcome as SizeOutcome
from kwiken.allocator.capacity.settings import MAX_REISSUE as MAX_REISSUE, SizeSettings as SizeSettings
from kwiken.allocator.capacity.study import (
    MARGIN as MARGIN,
    FrontierPoint as FrontierPoint,
    SizeStudy as SizeStudy,
    UnmetTargetError as UnmetTargetError,
    study_size as study_size,
)
from kwiken.allocator.capacity.supply import (
    DEFAULT_MEMORY_GB as DEFAULT_MEMORY_GB,
    StageNeed as StageNeed,
    StageSize as StageSize,
)
