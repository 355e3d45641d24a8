"""Policies of an allocation with their exact gains, by the age and coin that were chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken.model.profile.profile import Profile
from kwiken.model.service.stage import Reissue
from kwiken.tail.apportion.sum_of_variances import Allocation
from kwiken.tail.curves.confidence import MIN_VARIANCE_MS2, curve_bounds
from kwiken.tail.curves.curve import Curve

MARGINAL_BUDGET = 0.01  # share of all work over which the marginal gain is computed
NEARBY_SHARE = 0.9  # of the policy's share: a second point, which gives the slope there


@dataclass(frozen=True)
class ChosenPolicies:
    """Policies of an allocation, and their gains.

    Attributes:
        policies: policy of each stage that gets any budget.
        allocation: the allocation with the gains of these policies, and the marginal gain over the next 1% of
            all work.
        between: by stage: lower and upper bound of its policy's gain, ms²; left out where nothing is gained.
    """

    policies: Mapping[str, Reissue]
    allocation: Allocation
    between: Mapping[str, tuple[float, float]]


def chosen(
    profile: Profile,
    curves: Mapping[str, Curve],
    prices: Mapping[str, float],
    allocation: Allocation,
    *,
    seed: int = 0,
) -> ChosenPolicies:
    """Policies of an allocation, with their gains by the exact variance of each.

    The search on a percentile may choose another coin than that of least variance. The hull at the same share
    would then give the gain of a policy that is not in the plan.

    Args:
        curves: curve of each stage that may be reissued, by its name.
        prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
        allocation: share of calls and coin of each stage.
        seed: seed of the draws that replace cancelled calls.
    """
    found = {
        name: curves[name].policy(share, coin=allocation.coins.get(name))
        for name, share in allocation.fractions.items()
    }
    policies = {name: policy for name, policy in found.items() if policy is not None}
    shares = {name: share if name in policies else 0.0 for name, share in allocation.fractions.items()}
    gains = {name: _gain(curves[name], policies.get(name)) for name in shares}
    marginal = {
        name: _next(curves[name], share, allocation.coins.get(name), gains[name], prices[name])
        for name, share in shares.items()
    }
    alone = {
        name: _alone(curves[name], shares[name], allocation.coins.get(name), policy)
        for name, policy in policies.items()
        if gains[name] > MIN_VARIANCE_MS2
    }
    bounds = curve_bounds(profile, alone, seed=seed)
    between = {name: each.gain_between(shares[name]) for name, each in bounds.items()}
    return ChosenPolicies(policies, replace(allocation, gains=gains, marginal=marginal), between)


def _gain(curve: Curve, policy: Reissue | None) -> float:
    """Fall of a stage's variance under a policy, ms²; below 0 where it rises."""
    return float(curve.variance[0]) - curve.moments(policy)[1]


def _next(curve: Curve, share: float, coin: float | None, gain: float, price: float) -> float:
    """Marginal gain of more of the same policy, ms² per unit of budget; without a policy, of the hull."""
    more = min(1.0, share + MARGINAL_BUDGET / price)
    if not share > 0:
        return (curve.hull_at(0.0) - curve.hull_at(more)) / MARGINAL_BUDGET
    own = coin is None or coin == curve.coin_at(share)
    return max(0.0, _gain(curve, curve.policy(more, coin=None if own else coin)) - gain) / MARGINAL_BUDGET


def _alone(curve: Curve, share: float, coin: float | None, policy: Reissue) -> Curve:
    """Curve of one policy with its coin: points at no copies, at a smaller share, and at the policy."""
    less = curve.policy(NEARBY_SHARE * share, coin=coin) or policy
    steps = (None, less, policy)
    moments = np.array([curve.moments(step) for step in steps])
    coins = np.array([1.0, *(coin or step.probability for step in (less, policy))])
    return replace(
        curve,
        fraction=np.array([0.0, NEARBY_SHARE * share, share]),
        mean_ms=moments[:, 0],
        variance=moments[:, 1],
        hull=moments[:, 1],
        vertices=np.ones(len(steps), dtype=np.bool_),
        after_ms=np.array([np.inf, less.after_ms, policy.after_ms]),
        coin=coins,
    )
