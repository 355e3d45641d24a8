"""Old requests count less: a profile in which a request of so long ago stands for half a request of now."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from kwiken.errors import InputError
from kwiken.profile.profile import Profile
from kwiken.profile.subset import part_of

LEAST = 2.0**-1000


def decayed(profile: Profile, half_life_s: float) -> Profile:
    """A profile with fewer of the older requests.

    A request's weight halves with every `half_life_s` before the last one, and of requests of weight w every
    1/w-th is kept, evenly spaced in time. So all that is made of the profile is weighted, each request as a
    whole, and what depends on the number of requests knows how many there are left.

    Args:
        profile: what was learned; calls seen with copies are kept whole, for they are few.
        half_life_s: seconds.

    Returns:
        The profile, its requests in the order of time; how many went is in its counts.

    Raises:
        InputError: for a half-life that is no time.
    """
    if not 0 < half_life_s < math.inf:
        raise InputError(f"must be a finite number of seconds above 0, not {half_life_s}", where="half-life")
    order = np.argsort(profile.started_s, kind="stable")
    if not len(order):
        return profile
    age = profile.started_s[order[-1]] - profile.started_s[order]
    weight = np.exp2(-np.minimum(age / half_life_s, -math.log2(LEAST)))
    # Counted from the last, which is kept, backwards: the k-th whole weight is where a request stands.
    whole = np.ceil(np.cumsum(weight[::-1]) - 1e-9)[::-1]
    kept = order[np.append(whole[:-1] > whole[1:], True)]
    gone = len(order) - len(kept)
    counts = {**profile.counts, "requests_decayed": gone} if gone else dict(profile.counts)
    return replace(part_of(profile, kept), counts=counts)
