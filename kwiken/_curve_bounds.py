"""How sure a curve is: intervals from leaving out one stretch of time after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from kwiken._arena import Rows
from kwiken._curve import POLICIES, Curve, reissue_curve
from kwiken._objective import rows_of
from kwiken._pool import complete_calls, pool
from kwiken._profile import Floats, Profile, StageProfile

BLOCKS = 10
LEVEL = 0.9
LEAST = 1e-12  # ms²: a stage that does not vary
WIDEST = 100.0  # factor between a bound and the curve beyond which nothing is known anyway


@dataclass(frozen=True)
class CurveBounds:
    """An interval around a curve's variance.

    Attributes:
        fraction: (k,) the curve's own shares of calls.
        low: (k,) ms².
        high: (k,) ms².
        level: probability that the interval is meant to cover.
    """

    fraction: Floats
    low: Floats
    high: Floats
    level: float


def curve_bounds(
    profile: Profile, curves: Mapping[str, Curve], *, level: float = LEVEL, seed: int = 0
) -> dict[str, CurveBounds]:
    """Intervals for the curves of a profile's stages.

    Args:
        profile: what they were learned from.
        curves: by stage.
        level: probability to cover, each point on its own.
        seed: of the draws that stand for cancelled calls.

    Returns:
        By stage: an interval from the delete-a-group jackknife of the log of the variance. The groups are
        stretches of time, since neighbours in time share their fate, and time-outs are learned anew without
        each: few requests, or slowness that came in one burst, widen it. It costs ten curves a stage.
    """
    order = np.argsort(profile.started_s, kind="stable")
    parts = [np.delete(order, group) for group in np.array_split(np.arange(len(order)), BLOCKS)]
    places = {stage.name: i for i, stage in enumerate(profile.stages)}
    return {
        name: _bounds(
            curve, [_without(profile.stages[places[name]], rows, curve, seed) for rows in parts], level
        )
        for name, curve in curves.items()
    }


def _without(stage: StageProfile, rows: Rows, curve: Curve, seed: int) -> Floats | None:
    """(k,): log of the variance at the curve's shares, learned from some rows; None without any call."""
    some = rows_of(stage, rows)
    law = pool(some)
    if not len(law):
        return None
    again = reissue_curve(
        complete_calls(some, law, np.random.default_rng(seed)),
        law,
        grid=tuple(curve.fraction.tolist()),
        policies=POLICIES if curve.single_r else POLICIES[:1],
        correlation=curve.correlation,
    )
    return np.log(np.interp(curve.fraction, again.fraction, np.maximum(again.variance, LEAST)))


def _bounds(curve: Curve, found: list[Floats | None], level: float) -> CurveBounds:
    logs = np.array([row for row in found if row is not None])
    groups = len(logs)
    if groups < 2:  # noqa: PLR2004 - one tells no spread
        factor = np.full(len(curve.fraction), WIDEST)
    else:
        spread = np.sqrt((groups - 1) * logs.var(axis=0))
        with np.errstate(over="ignore"):
            factor = np.minimum(WIDEST, np.exp(stdtrit(groups - 1, (1 + level) / 2) * spread))
    return CurveBounds(curve.fraction, curve.variance / factor, curve.variance * factor, level)
