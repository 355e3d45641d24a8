"""Objectives of a plan, and the choices that an allocation makes for each stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kwiken.tail.apportion.sum_of_variances import Allocation
from kwiken.tail.curves import Curve
from kwiken.tail.simulation import Choice

OBJECTIVES: Final = ("tail", "variance")


def with_coins(allocation: Allocation, curves: Mapping[str, Curve]) -> Allocation:
    """The same allocation with the coin of each stage's best policy.

    Args:
        allocation: budget of each stage.
        curves: curve of each stage that may be reissued, by its name.
    """
    coins = {name: curves[name].coin_at(share) for name, share in allocation.fractions.items() if share > 0}
    return replace(allocation, coins=coins)


def choices_of(curves: Mapping[str, Curve], allocation: Allocation) -> dict[str, Choice]:
    """Share of calls and coin of each stage that gets any budget.

    Args:
        curves: curve of each stage that may be reissued, by its name.
        allocation: budget of each stage; a stage without a coin takes that of its curve.
    """
    return {
        name: (fraction, allocation.coins.get(name) or curves[name].coin_at(fraction))
        for name, fraction in allocation.fractions.items()
        if fraction > 0
    }
