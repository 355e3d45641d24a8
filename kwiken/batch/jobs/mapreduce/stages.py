"""Longest path through a DAG of stages, for any number of resources at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kwiken.base.arrays import Floats


def critical_path(parents: Sequence[Sequence[int]], times: Floats) -> tuple[Floats, list[int]]:
    """Completion times of a DAG, and the longest path at the first of the resources.

    Args:
        parents: by stage, indices of the stages that it waits for; each is below the stage's own index.
        times: (stages, resources) times of each stage, seconds.

    Returns:
        (resources,) completion times in seconds, and the stages of the longest path in order.
    """
    if not len(parents):
        return np.zeros(times.shape[1]), []
    ends = np.zeros_like(times)
    longest: list[int | None] = []
    for stage, before in enumerate(parents):
        ends[stage] = times[stage] + (ends[list(before)].max(axis=0) if len(before) else 0.0)
        longest.append(max(before, key=lambda one: float(ends[one, 0])) if len(before) else None)
    path, at = [], int(ends[:, 0].argmax())
    walk: int | None = at
    while walk is not None:
        path.append(walk)
        walk = longest[walk]
    return ends.max(axis=0), path[::-1]
