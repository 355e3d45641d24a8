"""Shrinkage: thin pairs are drawn toward what their parents expect, as far as held-out bins bear that out.

A pair of instances has a parent, the pair of their services; a pair of services has the pair of their groups.
Within a parent, the prior of a pair is the sender's share times the receiver's. A pair that was seen often
keeps its own share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.traffic.flows import summed

# Weights of the prior that are tried, in units of the median amount of a pair; 0 is the plain mean map.
WEIGHTS: Final = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FOLDS: Final = 4
MIN_GAIN: Final = 1e-9  # of an error, below which it is rounding
MIN_ERRORS_BETTER: Final = 1.0  # standard errors by which a weight must be better than 0


@dataclass(frozen=True, eq=False)
class PairTree:
    """Pairs that may have traffic, with their parents.

    Attributes:
        source: (p,) sender of each pair.
        target: (p,) receiver of each pair.
        parent: (p,) index of the pair of coarser places that each pair lies in, from 0.
        parents: number of pairs of coarser places.
    """

    source: Ints
    target: Ints
    parent: Ints
    parents: int


def shrunk(tree: PairTree, amount: Floats, weight: float, above: Floats | None = None) -> Floats:
    """Amounts of pairs, each drawn toward the prior of its parent.

    Args:
        amount: (p,) amount seen.
        weight: weight of the prior in each parent, in the unit of the amounts, 0 or more.
        above: (q,) amount of each parent to divide among its pairs; None for what was seen.

    Returns:
        (p,) amounts, which sum to those of the parents.
    """
    seen = summed(tree.parent, amount, tree.parents)
    total = seen if above is None else above
    held = amount
    if weight > 0:
        held = amount + weight * _prior(tree, amount)
        seen = seen + weight
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.where(seen > 0, total / seen, 0.0)
    return np.asarray(held * factor[tree.parent])


def _prior(tree: PairTree, amount: Floats) -> Floats:
    """(p,) share of each pair in its parent if senders and receivers met independently there."""
    product = _margin(tree.source, tree.parent, amount) * _margin(tree.target, tree.parent, amount)
    sums = summed(tree.parent, product, tree.parents)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(sums[tree.parent] > 0, product / sums[tree.parent], 0.0))


def _margin(places: Ints, parent: Ints, amount: Floats) -> Floats:
    """(p,) what the sender or the receiver of a pair has in all pairs of the same parent."""
    keys = parent * (int(places.max(initial=0)) + 1) + places
    found, at = np.unique(keys, return_inverse=True)
    return np.asarray(summed(at, amount, len(found))[at])


def held_out_weight(tree: PairTree, amounts: Floats) -> float:
    """Weight of the prior that predicts bins best that were left out; 0 unless another one is clearly better.

    Args:
        amounts: (b, p) amounts by time bin and pair, in the order of time.
    """
    if tree.parents == len(tree.parent):  # each pair is all of its parent
        return 0.0
    total = amounts.sum(axis=0)
    scale = float(np.median(total[total > 0]))
    errors = np.array([_errors(tree, amounts, weight * scale) for weight in WEIGHTS])
    if errors.ndim < 2 or errors.shape[1] < 2:  # noqa: PLR2004 - one fold has no spread
        return 0.0
    gains = errors[0] - errors
    spread = gains.std(axis=1, ddof=1) / np.sqrt(gains.shape[1])
    sure = gains.mean(axis=1) > np.maximum(MIN_ERRORS_BETTER * spread, MIN_GAIN)
    best = int(np.where(sure, gains.mean(axis=1), 0.0).argmax())
    return WEIGHTS[best] * scale


def folds_of(amounts: Floats) -> list[tuple[Ints, Ints]]:
    """Bins to learn from and bins to predict, for each fold: stretches of time with as much traffic each.

    Args:
        amounts: (b, p) amounts by time bin and pair, in the order of time.
    """
    reached = np.cumsum(amounts.sum(axis=1))
    fold = np.minimum(reached / reached[-1] * FOLDS - 1e-9, FOLDS - 1).astype(np.int64)
    names = np.unique(fold)
    if len(names) < 2:  # noqa: PLR2004 - nothing is left to learn from
        return []
    return [(np.flatnonzero(fold != name), np.flatnonzero(fold == name)) for name in names]


def _errors(tree: PairTree, amounts: Floats, weight: float) -> list[float]:
    found = []
    for learned, left in folds_of(amounts):
        expected = shrunk(tree, amounts[learned].sum(axis=0), weight)
        seen = amounts[left].sum(axis=0)
        found.append(float(np.abs(expected / expected.sum() - seen / seen.sum()).sum()))
    return found
