"""Weighting of a profile by rows: sampled requests are repeated, older ones thinned by a half-life."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of

MAX_WEIGHTED_REQUESTS: Final = 200_000  # rows of a weighted profile, unless more were kept
KEPT_OF_SAMPLED: Final = "requests_kept_of_sampled"  # name of a count of profiles
SLOW_CHOSEN: Final = "warning_slow_requests_chosen"  # name of a count of profiles
MIN_WEIGHT: Final = 2.0**-1000  # of the oldest requests: floating-point weights must stay above 0


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


def decayed(profile: Profile, half_life_s: float) -> Profile:
    """Profile with the older requests thinned out.

    The weight of a request halves with every `half_life_s` of its age before the last one. Of requests of
    weight w every 1/w-th is kept, evenly spaced in time. All later estimates are then weighted by whole
    requests, and their errors reflect the number of requests that is left.

    Args:
        profile: profile of the service; pairs of calls and copies are all kept, since they are few.
        half_life_s: age at which the weight is a half, seconds, above 0.

    Returns:
        The profile, its requests in order of time; its counts hold the number left out.

    Raises:
        InputError: for a half-life that is not a finite number above 0.
    """
    if not 0 < half_life_s < math.inf:
        raise InputError(f"must be a finite number of seconds above 0, not {half_life_s}", where="half-life")
    order = np.argsort(profile.started_s, kind="stable")
    if not len(order):
        return profile
    age = profile.started_s[order[-1]] - profile.started_s[order]
    weight = np.exp2(-np.minimum(age / half_life_s, -math.log2(MIN_WEIGHT)))
    # Weights are summed from the last request backwards; a request is kept where the sum passes a whole
    # number.
    whole = np.ceil(np.cumsum(weight[::-1]) - 1e-9)[::-1]
    kept = order[np.append(whole[:-1] > whole[1:], True)]
    gone = len(order) - len(kept)
    counts = {**profile.counts, "requests_decayed": gone} if gone else dict(profile.counts)
    return replace(part_of(profile, kept), counts=counts)
