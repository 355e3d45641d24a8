"""Variance-response curves of all stages of a profile."""

from __future__ import annotations

import numpy as np

from kwiken.model.profile import Profile, call_distribution, complete_calls
from kwiken.tail.curves.copy_correlation import MAX_USEFUL_CORRELATION, known_correlation
from kwiken.tail.curves.curve import GRID, Curve, reissue_curve

MIN_CALLS_FOR_CURVE = 10  # fewer calls show no tail that copies could cut


def stage_curves(
    profile: Profile,
    *,
    grid: tuple[float, ...] = GRID,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> dict[str, Curve]:
    """Variance-response curve of every stage that may be reissued and has enough calls, without gateway lag.

    Args:
        grid: shares of the calls to reissue, ascending from 0 to at most 1.
        seed: seed of the draws that replace cancelled calls (`complete_calls`), 0 or more.
        copy_correlation: correlation of a copy's normal score with its call's at every stage, 0 or more and
            below 1; None to estimate it per stage. A stage with at least `MAX_USEFUL_CORRELATION` has no
            curve, since its copies would be about as slow as their calls.
    """
    curves = {}
    for i, stage in enumerate(profile.stages):
        if not stage.reissuable or (~np.isnan(stage.calls_ms)).sum() < MIN_CALLS_FOR_CURVE:
            continue
        raced = stage.without_lag()
        distribution = call_distribution(raced)
        rho = known_correlation(raced, distribution, copy_correlation)
        if rho < MAX_USEFUL_CORRELATION:
            calls = complete_calls(raced, distribution, np.random.default_rng([seed, i]))
            curves[stage.name] = reissue_curve(calls, distribution, grid=grid, correlation=rho)
    return curves
