"""Trimming of pairs, as published: those that one node cannot serve are left out."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.storage.consolidation.interference import AccessMix


def pairs_served(mix: AccessMix, capacity: Floats, most: float) -> Bools:
    """(a, a) pairs whose sums of bandwidth and of bytes one node can take.

    Bandwidth counts as what the more random of the two could get alone.

    Args:
        capacity: (a,) bytes of each application, in units of GB.
        most: capacity of the node, a number of GB.
    """
    able = np.minimum(mix.alone[:, None], mix.alone[None, :])
    fits: Bools = (mix.bandwidth[:, None] + mix.bandwidth[None, :] <= able) & (
        capacity[:, None] + capacity[None, :] <= most
    )
    return fits
