"""Random rows of measurements for tests of their completion."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Floats


def low_rank_rows(seed: int = 0, count: int = 6, size: int = 5) -> Floats:
    """(count, size) rows that two factors explain, apart from noise of a deviation of 0.1."""
    rng = np.random.default_rng(seed)
    rows: Floats = rng.normal(0, 0.3, (count, 2)) @ rng.normal(size=(2, size))
    return rows + rng.normal(0, 0.1, (count, size))
