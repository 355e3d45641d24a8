"""Simulated disks and drawn workloads of ten applications, for the reproductions of storage systems."""

from __future__ import annotations

from kwiken.lab.disks.applications import (
    APPLICATIONS as APPLICATIONS,
    Application as Application,
    drawn_trace as drawn_trace,
    fragmented_trace as fragmented_trace,
)
from kwiken.lab.disks.devices import (
    DiskModel as DiskModel,
    cached_share as cached_share,
    served as served,
)
