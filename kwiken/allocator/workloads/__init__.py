"""Workloads: targets, measurements, and predictions of performance and contention with their uncertainty."""

from __future__ import annotations

from kwiken.allocator.workloads.classification import (
    Classification as Classification,
    Classifier as Classifier,
    Proposal as Proposal,
    first_columns as first_columns,
    label_text as label_text,
)
from kwiken.allocator.workloads.completion import (
    NORMAL_TAILS as NORMAL_TAILS,
    Chosen as Chosen,
    ColumnMeans as ColumnMeans,
    Completer as Completer,
    CompletionKind as CompletionKind,
    ErrorTails as ErrorTails,
    FoldIn as FoldIn,
    GaussianModel as GaussianModel,
    GradientDescent as GradientDescent,
    NearestRows as NearestRows,
    candidates as candidates,
    choose as choose,
)
from kwiken.allocator.workloads.identity import KnownProfiles as KnownProfiles
from kwiken.allocator.workloads.latency_limit import (
    UNKNOWN_VARIATION as UNKNOWN_VARIATION,
    spare_within as spare_within,
)
from kwiken.allocator.workloads.measurements import (
    Measured as Measured,
    Measurements as Measurements,
    measurements_from_text as measurements_from_text,
)
from kwiken.allocator.workloads.profile import (
    Estimate as Estimate,
    Size as Size,
    WorkloadProfile as WorkloadProfile,
    profiles_from_json as profiles_from_json,
    profiles_to_json as profiles_to_json,
)
from kwiken.allocator.workloads.sources import SOURCES as SOURCES
from kwiken.allocator.workloads.workload import (
    MAX_WORK_VARIATION as MAX_WORK_VARIATION,
    Measure as Measure,
    Spread as Spread,
    Target as Target,
    Workload as Workload,
    workloads_from_toml as workloads_from_toml,
)
