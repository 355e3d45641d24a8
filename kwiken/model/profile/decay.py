"""Exponential decay of a profile: older requests are thinned by a half-life."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kwiken.base.errors import InputError
from kwiken.model.profile.profile import Profile
from kwiken.model.profile.subset import part_of

MIN_WEIGHT = 2.0**-1000  # of the oldest requests: floating-point weights must stay above 0


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
