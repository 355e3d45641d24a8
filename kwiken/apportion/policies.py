"""What chosen policies gain: by their own age and coin, not by the best of their curves at that share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from kwiken.apportion.sum_of_variances import Allocation
from kwiken.curves import LEAST, Curve, curve_bounds
from kwiken.profile import Profile
from kwiken.service import Reissue

NEXT = 0.01  # of all work: the bit of budget that `marginal` is taken over
NEAR = 0.9  # of the share: a second point of the policy, which shows how steep it is there


@dataclass(frozen=True)
class Chosen:
    """Policies, and what they gain.

    Attributes:
        policies: by stage that gets any.
        allocation: with the gains of these policies, and what the next 1% of all work would gain beside.
        between: by stage: low and high of what its policy gains, ms²; left out where nothing is gained.
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
) -> Chosen:
    """The policies of an allocation, with what they gain by the exact variance of each.

    A percentile's descent may take another coin than the one of least variance; the hull at the same share
    would then promise what nobody planned.

    Args:
        profile: what was learned.
        curves: by stage that may be reissued.
        prices: by stage: what reissuing all of its calls costs.
        allocation: who got how much, and with which coin.
        seed: of the draws that stand for cancelled calls.
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
        if gains[name] > LEAST
    }
    bounds = curve_bounds(profile, alone, seed=seed)
    between = {name: each.gain_between(shares[name]) for name, each in bounds.items()}
    return Chosen(policies, replace(allocation, gains=gains, marginal=marginal), between)


def _gain(curve: Curve, policy: Reissue | None) -> float:
    """By how much a stage's variance falls under a policy, ms²; below 0 where it rises."""
    return float(curve.variance[0]) - curve.moments(policy)[1]


def _next(curve: Curve, share: float, coin: float | None, gain: float, price: float) -> float:
    """What more of the same policy would gain, ms² for each unit of budget; the curve's own where none is."""
    more = min(1.0, share + NEXT / price)
    if not share > 0:
        return (curve.hull_at(0.0) - curve.hull_at(more)) / NEXT
    own = coin is None or coin == curve.coin_at(share)
    return max(0.0, _gain(curve, curve.policy(more, coin=None if own else coin)) - gain) / NEXT


def _alone(curve: Curve, share: float, coin: float | None, policy: Reissue) -> Curve:
    """The curve of one policy with its coin: none, a little less, and the policy itself."""
    less = curve.policy(NEAR * share, coin=coin) or policy
    steps = (None, less, policy)
    moments = np.array([curve.moments(step) for step in steps])
    coins = np.array([1.0, *(coin or step.probability for step in (less, policy))])
    return replace(
        curve,
        fraction=np.array([0.0, NEAR * share, share]),
        mean_ms=moments[:, 0],
        variance=moments[:, 1],
        hull=moments[:, 1],
        vertices=np.ones(len(steps), dtype=np.bool_),
        after_ms=np.array([np.inf, less.after_ms, policy.after_ms]),
        probability=np.array([1.0, less.probability, policy.probability]),
        coin=coins,
    )
