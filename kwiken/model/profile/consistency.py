"""Consistency check of a profile: request latencies against the longest paths through its stages."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Bools
from kwiken.base.errors import InputError
from kwiken.model.latency import end_to_end
from kwiken.model.profile.notes import LatenciesContradict
from kwiken.model.profile.profile import Profile

MAX_RELATIVE_GAP = 0.1  # between a request's latency and its longest path, as a share of the latency
MAX_ABSOLUTE_GAP_MS = 0.1  # allowed in any case
NOTED_SHARE = 0.1  # of contradicted requests: more are noted
REFUSED_SHARE = 0.5  # of contradicted requests: with more, results for stages do not hold for requests


def contradicted(profile: Profile) -> Bools:
    """(n,): whether a request's latency differs much from the longest path of its stages' latencies.

    A fit assigns time that no stage explains to the request's own time, so both agree to the microsecond.
    They differ in three cases:
    1. A call was cancelled: such requests are left out.
    2. Copies were sent: the profile holds the latencies without copies.
    3. Calls overlapped that come one after the other in other requests.
    """
    path = end_to_end(profile.stages, {stage.name: stage.latency_ms for stage in profile.stages})
    far = np.abs(path - profile.latency_ms) > np.maximum(
        MAX_RELATIVE_GAP * profile.latency_ms, MAX_ABSOLUTE_GAP_MS
    )
    cut = np.logical_or.reduce([stage.censored.any(axis=1) for stage in profile.stages])
    return np.asarray(far & ~cut)


def check_agrees(profile: Profile) -> None:
    """Check that at most half of the requests contradict the profile's stages.

    Raises:
        InputError: when more do; names a request, with both latencies.
    """
    found = contradiction(profile, REFUSED_SHARE)
    if found is not None:
        raise InputError(
            f"latency_ms of {found.share:.0%} of the requests contradicts their stages: request "
            f"{found.request} has {found.latency_ms:.6g} ms, and its stages come to {found.path_ms:.6g} ms",
            where="profile",
        )


def contradiction(profile: Profile, tolerated: float = NOTED_SHARE) -> LatenciesContradict | None:
    """Note on requests that contradict a profile's stages, with the first such request as an example.

    Args:
        tolerated: share of contradicted requests that is tolerated, 0 to 1.

    Returns:
        The note; None where no larger share of the requests is contradicted.
    """
    off = contradicted(profile)
    if not len(off) or off.mean() <= tolerated:
        return None
    row = int(np.argmax(off))
    path = end_to_end(
        profile.stages, {stage.name: stage.latency_ms[row : row + 1] for stage in profile.stages}
    )
    return LatenciesContradict(
        share=float(off.mean()),
        tolerance=MAX_RELATIVE_GAP,
        request=row,
        latency_ms=float(profile.latency_ms[row]),
        path_ms=float(path[0]),
    )
