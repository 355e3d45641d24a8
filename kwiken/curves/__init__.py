"""Latency-response curves: what reissuing a share of a stage's calls does to its variance."""

from __future__ import annotations

from kwiken.curves.confidence import LEAST, TRUST, CurveBounds, curve_bounds
from kwiken.curves.convex_hull import lower_hull
from kwiken.curves.copies import dealer, linked
from kwiken.curves.copy_correlation import known_correlation
from kwiken.curves.curve import Curve, reissue_curve
from kwiken.curves.policies_compared import compare_policies
from kwiken.curves.profile_curves import FEWEST_CALLS, stage_curves

__all__ = [
    "FEWEST_CALLS",
    "LEAST",
    "TRUST",
    "Curve",
    "CurveBounds",
    "compare_policies",
    "curve_bounds",
    "dealer",
    "known_correlation",
    "linked",
    "lower_hull",
    "reissue_curve",
    "stage_curves",
]
