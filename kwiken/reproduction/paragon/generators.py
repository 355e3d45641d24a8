"""Synthetic matrices of applications by platform and by source of contention, as specified."""

from __future__ import annotations

import numpy as np

from kwiken.arrays import Floats

COLUMNS = 10  # platforms of the source's local cluster, and sources of contention
NOISE = 0.02  # deviation of a measurement


def platform_rows(rng: np.random.Generator, count: int, rank: int) -> Floats:
    """Log performance of applications on platforms: a level of each, platforms, and latent traits (GEN-HET).

    Args:
        rng: generator.
        count: number of applications.
        rank: number of latent traits.

    Returns:
        (count, 10) natural logarithms of performance, with 2% noise.
    """
    platforms = rng.normal(0, 0.35, COLUMNS)
    traits = rng.normal(0, 0.25 / np.sqrt(rank), (rank, COLUMNS))
    level = rng.normal(0, 1, (count, 1))
    rows: Floats = level + platforms + rng.normal(0, 1, (count, rank)) @ traits
    return rows + rng.normal(0, NOISE, rows.shape)


def score_rows(rng: np.random.Generator, count: int, rank: int) -> Floats:
    """Scores of applications by source of contention (GEN-INT).

    Args:
        rng: generator.
        count: number of applications.
        rank: number of latent traits.

    Returns:
        (count, 10) scores from 0 to 1, with noise of 0.02.
    """
    sources = rng.normal(0, 0.4, COLUMNS)
    traits = rng.normal(0, 1 / np.sqrt(rank), (rank, COLUMNS))
    scores = 1 / (1 + np.exp(-(sources + rng.normal(0, 1, (count, rank)) @ traits)))
    noisy: Floats = np.clip(scores + rng.normal(0, NOISE, scores.shape), 0, 1)
    return noisy
