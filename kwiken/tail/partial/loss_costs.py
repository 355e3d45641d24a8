"""Costs of lost utility: what a unit of loss at one stage costs the whole answer (Kwiken 5.3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kwiken.base.errors import InputError


def sequential_costs(stages: Mapping[str, float]) -> dict[str, float]:
    """Cost of a unit of loss at each stage, where every part is needed: 1 each, not normalised.

    After Kwiken section 5.3.

    The sum of losses bounds the loss of the whole answer from above, so a budget for the sum is safe.

    Args:
        stages: mapping with the stages' names as keys; its values, for example losses or weights, are
            ignored.
    """
    return dict.fromkeys(stages, 1.0)


def independent_costs(weights: Mapping[str, float]) -> dict[str, float]:
    """Cost of a unit of loss at each stage, where parts count by weight: shares of the weights.

    After Kwiken section 5.3.

    Args:
        weights: relative part of each stage in the utility of the whole answer, above 0.

    Raises:
        InputError: for a weight that is not a finite number above 0.
    """
    for name, weight in weights.items():
        if not (np.isfinite(weight) and weight > 0):
            raise InputError(
                f"stage {name!r}: its utility weight must be a finite number above 0, not {weight}"
            )
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}
