"""Map of low rank: a rival of the traffic model, by singular values of the mean map."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.traffic.shrinkage import folds_of

MAX_FACTORISED: Final = 1500  # endpoints, beyond which a dense decomposition takes minutes
RANK_PER_ENDPOINT: Final = 0.25  # above this a map is not of low rank
RANKS_TRIED: Final = 8


def best_rank(endpoints: int, source: Ints, target: Ints, amounts: Floats) -> int:
    """Rank of the low-rank map that predicts left-out bins best; 0 where there are too many endpoints.

    Args:
        endpoints: number of rows and columns of the map.
        source: (p,) index of the sender of each pair.
        target: (p,) index of the receiver of each pair.
        amounts: (b, p) amounts by time bin and pair, in the order of time.
    """
    if endpoints > MAX_FACTORISED:
        return 0
    highest = max(1, int(endpoints * RANK_PER_ENDPOINT))
    ranks = np.unique(np.geomspace(1, highest, RANKS_TRIED).astype(np.int64)).tolist()
    errors = dict.fromkeys(ranks, 0.0)
    for some, left_out in folds_of(amounts):
        seen = amounts[left_out].sum(axis=0)
        parts = _decomposed(endpoints, source, target, amounts[some].sum(axis=0))
        for rank in ranks:
            found = _of_rank(parts, rank, source, target)
            errors[rank] += float(np.abs(found / found.sum() - seen / seen.sum()).sum())
    return int(min(ranks, key=errors.__getitem__))


def low_rank_amounts(endpoints: int, source: Ints, target: Ints, amount: Floats, rank: int) -> Floats:
    """(p,) amounts of the map of a rank that is nearest to a map, cut to its pairs and to 0 or more.

    Cutting to pairs that may have traffic helps the rival: a low-rank map spreads traffic over all pairs.

    Args:
        endpoints: number of rows and columns of the map.
        source: (p,) index of the sender of each pair.
        target: (p,) index of the receiver of each pair.
        amount: (p,) amounts of the map.
        rank: number of singular values that are kept, 1 or more.
    """
    return _of_rank(_decomposed(endpoints, source, target, amount), rank, source, target)


def _decomposed(endpoints: int, source: Ints, target: Ints, amount: Floats) -> tuple[Floats, Floats, Floats]:
    dense = np.zeros((endpoints, endpoints))
    dense[source, target] = amount
    left, values, right = np.linalg.svd(dense, full_matrices=False)
    return left, values, right


def _of_rank(parts: tuple[Floats, Floats, Floats], rank: int, source: Ints, target: Ints) -> Floats:
    left, values, right = parts
    kept = np.clip((left[:, :rank] * values[:rank]) @ right[:rank], 0.0, None)
    return np.asarray(kept[source, target])
