"""What losses at several stages do to the whole answer, and what a unit of loss costs (Kwiken 5.3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kwiken.errors import InputError


def sequential_costs(stages: Mapping[str, float]) -> dict[str, float]:
    """Cost of a unit of loss at each stage, where every part is needed: 1 each, and not normalised.

    After Kwiken section 5.3.

    The sum of losses bounds the loss of the whole from above, so a budget on it is safe.

    Args:
        stages: by name; the values do not matter, so losses or weights will do.
    """
    return dict.fromkeys(stages, 1.0)


def independent_costs(weights: Mapping[str, float]) -> dict[str, float]:
    """Cost of a unit of loss at each stage, where parts count by weight: shares of the weights.

    After Kwiken section 5.3.

    Args:
        weights: by stage: relative part in the utility of the whole; above 0.

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
