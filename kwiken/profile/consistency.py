"""Whether a profile's stages explain its requests, as they do in every fit."""

from __future__ import annotations

import numpy as np

from kwiken.arrays import Bools
from kwiken.errors import InputError
from kwiken.latency import end_to_end
from kwiken.profile.profile import Profile

FAR = 0.1  # share of a request's latency
LEAST_MS = 0.1
MANY = 0.1  # of the requests: worth a word
MOST = 0.5  # of the requests: nothing that is said of these stages holds for these requests


def contradicted(profile: Profile) -> Bools:
    """(n,): whether a request's latency is far from the longest path of its stages' times.

    A fit names what no stage explains as the request's own time, so both agree to the microsecond. They do
    not where a call was cut short, and these requests are passed over; nor where copies were sent (a profile
    has what it had been without) or calls overlapped that come one after the other elsewhere.
    """
    path = end_to_end(profile.stages, {stage.name: stage.latency_ms for stage in profile.stages})
    far = np.abs(path - profile.latency_ms) > np.maximum(FAR * profile.latency_ms, LEAST_MS)
    cut = np.logical_or.reduce([stage.censored.any(axis=1) for stage in profile.stages])
    return np.asarray(far & ~cut)


def check_agrees(profile: Profile) -> None:
    """Refuse a profile most of whose requests are not what its stages say.

    Raises:
        InputError: names a request, with both times.
    """
    told = told_contradiction(profile, MOST)
    if told is not None:
        raise InputError(told, where="profile")


def told_contradiction(profile: Profile, at_least: float = MANY) -> str | None:
    """How a profile's stages contradict its requests, in words, with the first request that they do.

    Args:
        profile: what was learned.
        at_least: share of the requests up to which nothing is said.

    Returns:
        None where no more of the requests are contradicted.
    """
    off = contradicted(profile)
    if not len(off) or off.mean() <= at_least:
        return None
    row = int(np.argmax(off))
    path = end_to_end(
        profile.stages, {stage.name: stage.latency_ms[row : row + 1] for stage in profile.stages}
    )
    return (
        f"latency_ms of {off.mean():.0%} of the requests is more than {FAR:.0%} off from what their stages "
        f"come to: request {row} has {profile.latency_ms[row]:.6g} ms, and its stages {float(path[0]):.6g} ms"
    )
