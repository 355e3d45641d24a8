"""Weighting of a profile made of sampled requests: each row stands for as many requests as were like it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of

MAX_WEIGHTED_REQUESTS: Final = 200_000  # rows of a weighted profile, unless more were kept
KEPT_OF_SAMPLED: Final = "requests_kept_of_sampled"  # name of a count of profiles


def weighted(profile: Profile, shares: Floats) -> Profile:
    """Profile of all requests, estimated from those that a sampler kept.

    A request that was kept with probability p stands for 1/p requests (Horvitz and Thompson, 1952): its row
    is repeated so often, rounded so that the sums of the weights stay. All later estimates are then weighted
    without knowing of it. The repetitions are spread evenly over the time until the next request.

    Args:
        profile: profile of the n requests that were kept, in order of their start; pairs of calls and copies
            stay as they are.
        shares: (n,) probability with which each was kept, above 0, at most 1.

    Returns:
        The profile, its requests in order of their start; its counts hold the number that was kept. The same
        profile if every request was kept for certain.

    Raises:
        InputError: a share is out of range.
    """
    if not len(shares) or bool((shares == 1.0).all()):
        return profile
    if not bool(((shares > 0) & (shares <= 1)).all()):
        raise InputError("must be above 0 and at most 1", where="share of traces")
    total = np.cumsum(1.0 / shares)
    room = max(MAX_WEIGHTED_REQUESTS, len(shares))
    if total[-1] > room:
        total *= room / total[-1]
    times = np.diff(np.floor(total + 0.5), prepend=0.0).astype(np.int64)
    rows = np.repeat(np.arange(len(times)), times)
    number = np.arange(len(rows)) - np.repeat(np.cumsum(times) - times, times)
    gap = np.append(np.diff(profile.started_s), 0.0)
    spread = part_of(profile, rows)
    return replace(
        spread,
        started_s=spread.started_s + gap[rows] * number / times[rows],
        counts={**profile.counts, "requests": len(rows), KEPT_OF_SAMPLED: len(shares)},
    )
