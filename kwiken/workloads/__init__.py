"""Workloads: targets, measurements, and predictions of performance and contention with their uncertainty."""

from __future__ import annotations

from kwiken.workloads.classification import Classification, Classifier, Proposal, first_columns, label_text
from kwiken.workloads.completion import ColumnMeans, Completer, FoldIn, GaussianModel
from kwiken.workloads.gradient_descent import GradientDescent
from kwiken.workloads.identity import KnownProfiles
from kwiken.workloads.measurements import Measured, Measurements, measurements_from_text
from kwiken.workloads.profile import (
    Estimate,
    Size,
    WorkloadProfile,
    profiles_from_json,
    profiles_to_json,
)
from kwiken.workloads.selection import Chosen, candidates, choose
from kwiken.workloads.sources import SOURCES
from kwiken.workloads.workload import Measure, Spread, Target, Workload, workloads_from_toml

__all__ = [
    "SOURCES",
    "Chosen",
    "Classification",
    "Classifier",
    "ColumnMeans",
    "Completer",
    "Estimate",
    "FoldIn",
    "GaussianModel",
    "GradientDescent",
    "KnownProfiles",
    "Measure",
    "Measured",
    "Measurements",
    "Proposal",
    "Size",
    "Spread",
    "Target",
    "Workload",
    "WorkloadProfile",
    "candidates",
    "choose",
    "first_columns",
    "label_text",
    "measurements_from_text",
    "profiles_from_json",
    "profiles_to_json",
    "workloads_from_toml",
]
