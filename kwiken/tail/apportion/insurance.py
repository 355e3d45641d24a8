"""Insurance of a plan: a small part of a reissue budget for stages that have not stalled yet.

Curves are learned from the past, and faults move between stages: what has not stalled may stall tomorrow. So
a part of the budget gives every stage the same share of copies, for its slowest calls. The size of the part
was chosen by blocks of time on recordings with faults; see "Plans on later requests" in
`docs/reference/results.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kwiken.tail.apportion.sum_of_variances import Allocation, allocation_of, uniform_fraction
from kwiken.tail.curves import Curve

INSURANCE = 0.1  # share of a reissue budget


def insured(
    allocation: Allocation, curves: Mapping[str, Curve], prices: Mapping[str, float], premium: float
) -> Allocation:
    """Add the insurance to an allocation.

    Args:
        allocation: apportionment of what the insurance leaves of the budget.
        curves: curve of each stage that may be reissued, by its name.
        prices: by stage: cost of reissuing all of its calls, in the unit of the budget.
        premium: budget to spread, 0 or more.

    Returns:
        The allocation with the same share of calls added at every stage, up to all of them. Stages with a
        budget of their own keep their coins. All others copy their slowest calls without a coin: a stall
        that has not come yet is not in the curve that would choose one, and a coin would leave most of it
        without a copy.
    """
    spread = uniform_fraction(curves, prices, premium).fractions
    fractions = {name: min(1.0, share + spread[name]) for name, share in allocation.fractions.items()}
    coins = {name: allocation.coins.get(name, 1.0) for name, share in fractions.items() if share > 0}
    return replace(allocation_of(curves, prices, fractions), path=allocation.path, coins=coins)
