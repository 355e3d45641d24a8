"""Clusters of tasks by use: k-means on percentiles, ordered from low to high use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints

RESTARTS: Final = 10
ROUNDS: Final = 100
HYSTERESIS: Final = 0.1  # share by which another centre must be nearer for a task to change its cluster


@dataclass(frozen=True, eq=False)
class UsageClusters:
    """Clusters, ordered by the sum of their centre.

    Attributes:
        labels: (t,) cluster of each task; 0 is the one of the lowest use.
        centres: (k, f) centre of each cluster.
        within: sum of squared distances from the centres.
    """

    labels: Ints
    centres: Floats
    within: float


def cluster_usage(
    features: Floats, count: int, rng: np.random.Generator, before: Ints | None = None
) -> UsageClusters:
    """K-means with k-means++ starts; the best of ten.

    Args:
        features: (t, f) percentiles of use, each scaled to the capacity of a machine.
        count: number of clusters, at least 1 and at most the number of tasks.
        before: (t,) clusters of the last run; a task changes only if another centre is nearer by a tenth.
    """
    found = [_descended(features, _started(features, count, rng)) for _ in range(RESTARTS)]
    best = min(found, key=lambda one: one.within)
    order = np.argsort(best.centres.sum(axis=1), kind="stable")
    centres = best.centres[order]
    distance = np.linalg.norm(features[:, None] - centres, axis=2)
    labels = distance.argmin(axis=1)
    if before is not None:
        rows = np.arange(len(features))
        stay = distance[rows, labels] > (1 - HYSTERESIS) * distance[rows, before]
        labels = np.where(stay, before, labels)
    return UsageClusters(labels.astype(np.int64), centres, best.within)


def elbow(features: Floats, most: int, rng: np.random.Generator) -> int:
    """Number of clusters at the elbow of the within-cluster sum: the point furthest from the chord.

    Args:
        features: (t, f) percentiles of use.
        most: largest number of clusters that is tried, 3 or more.
    """
    sums = np.array([cluster_usage(features, count, rng).within for count in range(1, most + 1)])
    fallen = (sums - sums[-1]) / max(float(sums[0] - sums[-1]), 1e-12)
    chord = np.linspace(1.0, 0.0, most)
    return int(np.argmax(chord - fallen)) + 1


def _started(features: Floats, count: int, rng: np.random.Generator) -> Floats:
    centres = [features[int(rng.integers(len(features)))]]
    while len(centres) < count:
        distance = np.min([((features - centre) ** 2).sum(axis=1) for centre in centres], axis=0)
        total = distance.sum()
        chance = distance / total if total > 0 else None
        centres.append(features[int(rng.choice(len(features), p=chance))])
    return np.array(centres)


def _descended(features: Floats, centres: Floats) -> UsageClusters:
    labels = np.full(len(features), -1, dtype=np.int64)
    for _ in range(ROUNDS):
        distance = ((features[:, None] - centres) ** 2).sum(axis=2)
        now = distance.argmin(axis=1)
        if np.array_equal(now, labels):
            break
        labels = now
        for cluster in range(len(centres)):
            own = labels == cluster
            if own.any():
                centres[cluster] = features[own].mean(axis=0)
    within = float(((features - centres[labels]) ** 2).sum())
    return UsageClusters(labels, centres, within)
