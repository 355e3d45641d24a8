"""Completion of rows: models of rows, their choice by held-out error, and calibrated deviations."""

from __future__ import annotations

from kwiken.allocator.workloads.completion.gaussian import (
    AS_LEARNED as AS_LEARNED,
    MIN_VARIANCE as MIN_VARIANCE,
    BayesianRows as BayesianRows,
    ColumnMeans as ColumnMeans,
    Completer as Completer,
    Completion as Completion,
    EntryErrors as EntryErrors,
    FoldIn as FoldIn,
    GaussianModel as GaussianModel,
    Model as Model,
)
from kwiken.allocator.workloads.completion.gradient_descent import GradientDescent as GradientDescent
from kwiken.allocator.workloads.completion.joined import JoinedModel as JoinedModel
from kwiken.allocator.workloads.completion.levels import NoEffect as NoEffect, OneUnit as OneUnit
from kwiken.allocator.workloads.completion.nearest import (
    NearestModel as NearestModel,
    NearestRows as NearestRows,
)
from kwiken.allocator.workloads.completion.scalability import Scalability as Scalability
from kwiken.allocator.workloads.completion.selection import (
    Chosen as Chosen,
    Method as Method,
    candidates as candidates,
    choose as choose,
    held_out as held_out,
)
from kwiken.allocator.workloads.completion.tails import (
    MAX_SCALE as MAX_SCALE,
    NORMAL_TAILS as NORMAL_TAILS,
    calibration as calibration,
    deviations_at as deviations_at,
    probability_below as probability_below,
    tails as tails,
)
