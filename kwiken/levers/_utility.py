"""What losses at several stages do to the whole answer, and what a unit of loss costs (Kwiken 5.3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kwiken._errors import InputError


def sequential_loss(losses: Mapping[str, float]) -> float:
    """Loss of an answer that is useful only where every stage's part is complete: `1 - prod(1 - r)`.

    A share of the utility (Kwiken section 5.3).

    Args:
        losses: by stage: share of its utility that is lost.

    Raises:
        InputError: for a loss that is no share from 0 to 1.
    """
    return float(1.0 - np.prod([1.0 - loss for loss in _checked(losses).values()]))


def independent_loss(losses: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Loss of an answer whose parts count on their own, by weight (images, videos and the like).

    After Kwiken section 5.3.

    Args:
        losses: by stage: share of its utility that is lost.
        weights: by stage: relative part in the utility of the whole; above 0.

    Raises:
        InputError: for a loss that is no share from 0 to 1, or a weight that is not above 0.
    """
    costs = independent_costs({name: weights[name] for name in _checked(losses)})
    return sum(costs[name] * loss for name, loss in losses.items())


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


def _checked(losses: Mapping[str, float]) -> Mapping[str, float]:
    for name, loss in losses.items():
        if not 0 <= loss <= 1:
            raise InputError(f"stage {name!r}: a loss is a share from 0 to 1, not {loss}")
    return losses
