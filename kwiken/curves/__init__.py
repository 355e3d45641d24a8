"""Variance-response curves: variance of a stage's latency by the share of its calls that are reissued."""

from __future__ import annotations

from kwiken.curves.confidence import MIN_VARIANCE_MS2, UNCERTAIN_GAIN_SHARE, CurveBounds, curve_bounds
from kwiken.curves.convex_hull import lower_hull
from kwiken.curves.copies import copy_generator, correlated_copies
from kwiken.curves.copy_correlation import known_correlation
from kwiken.curves.curve import Curve, reissue_curve
from kwiken.curves.policies_compared import compare_policies
from kwiken.curves.profile_curves import MIN_CALLS_FOR_CURVE, stage_curves

__all__ = [
    "MIN_CALLS_FOR_CURVE",
    "MIN_VARIANCE_MS2",
    "UNCERTAIN_GAIN_SHARE",
    "Curve",
    "CurveBounds",
    "compare_policies",
    "copy_generator",
    "correlated_copies",
    "curve_bounds",
    "known_correlation",
    "lower_hull",
    "reissue_curve",
    "stage_curves",
]
