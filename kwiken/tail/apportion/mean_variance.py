"""Apportionment of one budget over the stages by mean and variance together: an approximation of p99.

The p99 of a request is about its mean `m` plus `z` standard deviations `sd`. A small change of an allocation
changes p99 by `dm + z / (2 sd) dV`, where `dm` and `dV` are the total changes of the stages' means and
variances. So reissues should lower `V + (2 sd / z) m`. Once most of the variance is gone, the rest of a
budget goes to means, which the sum of variances (Kwiken section 5.2) ignores. A stage off the critical path
rarely changes the latency of a request, so both terms of a stage are weighted by its share of critical paths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.model.latency import critical_path, percentile
from kwiken.model.profile.profile import Profile
from kwiken.tail.apportion.sum_of_variances import Allocation, HulledCurve, allocation_of, sumvar
from kwiken.tail.curves.curve import Curve, lower_hull

FIXED_POINT_ROUNDS = 4  # the weight of means depends on the standard deviation that the allocation leaves
MIN_DEVIATIONS = 1.0  # of p99 from the mean, where a tail is light
MIN_PATH_SHARE = 1e-3  # of critical paths: a stage that was on none may be on one later


@dataclass(frozen=True)
class _Mixed:
    """Hull of a stage's `V + weight m` by share of calls."""

    fraction: Floats
    hull: Floats


class MeanVarianceApportioner:
    """Apportions budgets by SumVar on mean and variance together.

    Args:
        curves: curve of each stage that may be reissued, by its name.
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
            prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
            budget: the most that may be spent, 0 or more.
            hulls: by stage: hull of its variance, ms², at the points of its curve; None for the curves' own
                hulls.

        Returns:
            The allocation; its gains are those of the curves' variances, ms².
        """
        by_variance: Mapping[str, HulledCurve] = self._curves if hulls is None else hulls
        found = sumvar(by_variance, prices, budget)
        for _ in range(FIXED_POINT_ROUNDS):
            weight = 2 * self._spread_ms(found) / self._z
            mixed = {name: self._mixed(name, hull.hull, weight) for name, hull in by_variance.items()}
            found = sumvar(mixed, prices, budget)
        return replace(allocation_of(self._curves, prices, found.fractions), path=found.path)

    def _spread_ms(self, found: Allocation) -> float:
        """Standard deviation of request latency, ms, under an allocation, for independent stages."""
        left = sum(
            self._share[name] * curve.hull_at(found.fractions[name]) for name, curve in self._curves.items()
        )
        return math.sqrt(self._fixed + left)

    def _mixed(self, name: str, variance: Floats, weight_ms: float) -> _Mixed:
        curve = self._curves[name]
        both = self._share[name] * (variance + weight_ms * curve.mean_ms)
        return _Mixed(curve.fraction, lower_hull(curve.fraction, both)[0])


def _critical_shares(profile: Profile) -> dict[str, float]:
    """By stage: share of the requests whose critical path contains the stage."""
    on_path = critical_path(profile.stages, {stage.name: stage.latency_ms for stage in profile.stages})
    shares = np.maximum(MIN_PATH_SHARE, on_path.mean(axis=1))
    return {stage.name: float(value) for stage, value in zip(profile.stages, shares, strict=True)}


def _deviations(latency_ms: Floats) -> float:
    """Distance of p99 from the mean in standard deviations; larger for heavier tails."""
    sd = float(latency_ms.std())
    return (
        max(MIN_DEVIATIONS, (percentile(latency_ms, 99) - float(latency_ms.mean())) / sd) if sd > 0 else 1.0
    )
