"""Dispatch: which jobs run on reserved nodes, which on rented ones, and which wait (HCloud section 3)."""

from __future__ import annotations

from kwiken.allocator.provisioning.dispatch.mapping import (
    POLICIES as POLICIES,
    JobRoute as JobRoute,
    ReservedState as ReservedState,
    RoutedJob as RoutedJob,
    dynamic_route as dynamic_route,
    route as route,
)
from kwiken.allocator.provisioning.dispatch.quality_record import QualityRecord as QualityRecord
from kwiken.allocator.provisioning.dispatch.soft_limit import (
    HARD_LIMIT as HARD_LIMIT,
    SoftLimit as SoftLimit,
)
from kwiken.allocator.provisioning.dispatch.waits import WaitEstimator as WaitEstimator
