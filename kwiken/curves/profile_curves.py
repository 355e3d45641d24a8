"""The variance-response curves of a profile's stages."""

from __future__ import annotations

import numpy as np

from kwiken.curves.copy_correlation import HOPELESS, known_correlation
from kwiken.curves.curve import GRID, Curve, reissue_curve
from kwiken.profile import Profile, complete_calls, pool

FEWEST_CALLS = 10  # a stage with fewer calls shows no tail to cut


def stage_curves(
    profile: Profile,
    *,
    grid: tuple[float, ...] = GRID,
    seed: int = 0,
    copy_correlation: float | None = None,
) -> dict[str, Curve]:
    """The variance-response curve of every stage that may be reissued and has calls enough.

    Args:
        profile: what was learned.
        grid: shares of the calls to reissue, ascending from 0.
        seed: of the draws that stand for cancelled calls (`complete_calls`).
        copy_correlation: as `study_plan` takes it. A stage whose copies are as slow as their calls
            (`HOPELESS`) has no curve.
    """
    curves = {}
    for i, stage in enumerate(profile.stages):
        if not stage.reissuable or (~np.isnan(stage.calls_ms)).sum() < FEWEST_CALLS:
            continue
        law = pool(stage)
        rho = known_correlation(stage, law, copy_correlation)
        if rho < HOPELESS:
            calls = complete_calls(stage, law, np.random.default_rng([seed, i]))
            curves[stage.name] = reissue_curve(calls, law, grid=grid, correlation=rho)
    return curves
