"""Deviations of generated traffic from the original: averages, activity over time, maps."""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.base.arrays import Floats

PERCENTS: Final = (25, 50, 75, 95, 100)
MIN_SHARE_OF_MEAN: Final = 0.01  # bins below it do not count


def by_load(deviation: Floats, load: Floats) -> list[float]:
    """Mean deviation of the least loaded 25, 50, 75, 95 and 100% of the servers, as shares.

    Args:
        deviation: (n,) deviation of each server.
        load: (n,) mean load of each server.
    """
    ordered = deviation[np.argsort(load, kind="stable")]
    counts = [max(1, round(len(ordered) * percent / 100)) for percent in PERCENTS]
    return [float(ordered[:count].mean()) for count in counts]


def of_averages(original: Floats, generated: Floats) -> Floats:
    """(n,) deviation of each server's mean, as a share of the original.

    Args:
        original: (n,) mean load of each server.
        generated: (n,) mean load of each server in a generated run.
    """
    return np.abs(generated - original) / np.maximum(original, 1e-12)


def over_time(original: Floats, generated: Floats) -> Floats:
    """(n,) mean over the bins of the deviation of each server's rate, bins with next to nothing left out.

    Args:
        original: (b, n) load by bin and server.
        generated: (b, n) load by bin and server in a generated run.
    """
    counts = original > MIN_SHARE_OF_MEAN * original.mean(axis=0)
    gap = np.abs(generated - original) / np.where(counts, original, 1.0)
    return np.asarray((gap * counts).sum(axis=0) / np.maximum(counts.sum(axis=0), 1))


def of_maps(original: Floats, generated: Floats) -> Floats:
    """(n,) deviation of the cells of each server's row and column, weighted by what they carry.

    Args:
        original: (n, n) amounts by sender and receiver.
        generated: (n, n) amounts in a generated run.
    """
    gap, carried = np.abs(generated - original), original
    return np.asarray(
        (gap.sum(axis=0) + gap.sum(axis=1)) / np.maximum(carried.sum(axis=0) + carried.sum(axis=1), 1e-12)
    )
