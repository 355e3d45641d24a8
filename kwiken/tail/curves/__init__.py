"""Variance-response curves: variance of a stage's latency by the share of its calls that are reissued."""

from __future__ import annotations

from kwiken.tail.curves.confidence import (
    MIN_VARIANCE_MS2 as MIN_VARIANCE_MS2,
    UNCERTAIN_GAIN_SHARE as UNCERTAIN_GAIN_SHARE,
    CurveBounds as CurveBounds,
    curve_bounds as curve_bounds,
)
from kwiken.tail.curves.copies import copy_generator as copy_generator, correlated_copies as correlated_copies
from kwiken.tail.curves.copy_correlation import known_correlation as known_correlation
from kwiken.tail.curves.curve import (
    MIN_CALLS_FOR_CURVE as MIN_CALLS_FOR_CURVE,
    Curve as Curve,
    lower_hull as lower_hull,
    reissue_curve as reissue_curve,
    stage_curves as stage_curves,
)
from kwiken.tail.curves.policies_compared import compare_policies as compare_policies
