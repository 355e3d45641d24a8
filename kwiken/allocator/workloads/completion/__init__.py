"""Completion of rows: models of rows, their choice by held-out error, and calibrated deviations."""

from __future__ import annotations

from kwiken.allocator.workloads.completion.gaussian import (
    MIN_VARIANCE as MIN_VARIANCE,
    BayesianRows as BayesianRows,
    ColumnMeans as ColumnMeans,
    Completer as Completer,
    Completion as Completion,
    EntryErrors as EntryErrors,
    FoldIn as FoldIn,
    GaussianModel as GaussianModel,
)
from kwiken.allocator.workloads.completion.gradient_descent import GradientDescent as GradientDescent
from kwiken.allocator.workloads.completion.joined import JoinedModel as JoinedModel
from kwiken.allocator.workloads.completion.nearest import (
    NearestModel as NearestModel,
    NearestRows as NearestRows,
)
from kwiken.allocator.workloads.completion.selection import (
    Chosen as Chosen,
    CompletionKind as CompletionKind,
    candidates as candidates,
    choose as choose,
)
from kwiken.allocator.workloads.completion.tails import (
    MAX_NARROWING as MAX_NARROWING,
    MIN_NARROWING as MIN_NARROWING,
    NORMAL_TAILS as NORMAL_TAILS,
    ErrorTails as ErrorTails,
)
