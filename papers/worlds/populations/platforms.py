"""Synthetic matrix of applications by platform, as specified."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Floats

COLUMNS = 10  # platforms of the source's local cluster
NOISE = 0.02  # deviation of a measurement


def platform_rows(rng: np.random.Generator, count: int, rank: int) -> Floats:
    """Log performance of applications on platforms: a level of each, platforms, and latent traits (GEN-HET).

    Returns:
        (count, 10) natural logarithms of performance, with 2% noise.
    """
    platforms = rng.normal(0, 0.35, COLUMNS)
    traits = rng.normal(0, 0.25 / np.sqrt(rank), (rank, COLUMNS))
    level = rng.normal(0, 1, (count, 1))
    rows: Floats = level + platforms + rng.normal(0, 1, (count, rank)) @ traits
    return rows + rng.normal(0, NOISE, rows.shape)
