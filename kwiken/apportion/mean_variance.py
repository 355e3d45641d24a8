"""Mean and spread at once: what p99 is made of, as far as single stages can tell.

The p99 of a request is about its mean plus `z` standard deviations. A small change of an allocation moves it
by `dm + z / (2 sd) dV`, where `dm` and `dV` are what the stages' means and variances change by in all. So
reissues should lower `V + (2 sd / z) m`: where most of the variance is gone, what is left of a budget goes to
means, which the sum of variances (Kwiken section 5.2) does not see. A stage off the critical path changes the
request less often; both of its terms count for its share of critical paths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from kwiken.apportion.sum_of_variances import Allocation, HulledCurve, allocation_of, sumvar
from kwiken.arrays import Floats
from kwiken.curves import Curve, lower_hull
from kwiken.latency import critical_path
from kwiken.profile import Profile

ROUNDS = 4  # the weight of means hangs on the spread that the allocation leaves
LEAST_Z = 1.0
LEAST_SHARE = 1e-3  # of critical paths: a stage that was on none may yet be


@dataclass(frozen=True)
class _Mixed:
    """A stage's `V + weight m` by share of calls, hulled."""

    fraction: Floats
    hull: Floats


class MeanAndSpread:
    """Apportions budgets by SumVar on mean and variance together.

    Args:
        profile: what was learned.
        curves: by stage that may be reissued.
    """

    def __init__(self, profile: Profile, curves: Mapping[str, Curve]) -> None:
        self._curves = curves
        self._share = _critical_shares(profile)
        self._z = _deviations(profile.latency_ms)
        self._fixed = sum(
            self._share[stage.name] * float(stage.latency_ms.var())
            for stage in profile.stages
            if stage.name not in curves
        )

    def __call__(
        self, prices: Mapping[str, float], budget: float, *, hulls: Mapping[str, HulledCurve] | None = None
    ) -> Allocation:
        """Apportion a budget.

        Args:
            prices: by stage: what reissuing all of its calls costs.
            budget: the most that may be spent.
            hulls: of every stage: hull of its variance to go by, at the curve's own points; the curve's by
                default.

        Returns:
            The allocation; its gains are those of the curves' variances.
        """
        by_variance: Mapping[str, HulledCurve] = self._curves if hulls is None else hulls
        found = sumvar(by_variance, prices, budget)
        for _ in range(ROUNDS):
            weight = 2 * self._spread_ms(found) / self._z
            mixed = {name: self._mixed(name, hull.hull, weight) for name, hull in by_variance.items()}
            found = sumvar(mixed, prices, budget)
        return allocation_of(self._curves, prices, found.fractions)

    def _spread_ms(self, found: Allocation) -> float:
        """Standard deviation of a request that an allocation leaves, had all stages on its path their own."""
        left = sum(
            self._share[name] * curve.hull_at(found.fractions[name]) for name, curve in self._curves.items()
        )
        return math.sqrt(self._fixed + left)

    def _mixed(self, name: str, variance: Floats, weight_ms: float) -> _Mixed:
        curve = self._curves[name]
        both = self._share[name] * (variance + weight_ms * curve.mean_ms)
        return _Mixed(curve.fraction, lower_hull(curve.fraction, both)[0])


def _critical_shares(profile: Profile) -> dict[str, float]:
    """By stage: share of the requests whose critical path holds it."""
    on_path = critical_path(profile.stages, {stage.name: stage.latency_ms for stage in profile.stages})
    shares = np.maximum(LEAST_SHARE, on_path.mean(axis=1))
    return {stage.name: float(value) for stage, value in zip(profile.stages, shares, strict=True)}


def _deviations(latency_ms: Floats) -> float:
    """How many standard deviations p99 lies above the mean; more for heavier tails."""
    sd = float(latency_ms.std())
    return (
        max(LEAST_Z, (float(np.percentile(latency_ms, 99)) - float(latency_ms.mean())) / sd)
        if sd > 0
        else 1.0
    )
