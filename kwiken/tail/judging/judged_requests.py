"""Requests on which a plan is judged, by stretch of time or recording; whether they are enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kwiken.base.arrays import Floats
from kwiken.base.errors import InputError
from kwiken.model.plan.plan import Plan
from kwiken.model.profile.profile import Profile

MIN_REQUESTS = 10  # requests below which no percentile is meaningful
MAX_STRETCHES = 24  # of one judgement by time
STRETCHES_S = (60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0)  # lengths to choose from


@dataclass(frozen=True)
class Segment:
    """Requests to judge with the plans that are in force meanwhile.

    Attributes:
        recording: name of the recording that the requests are, if it is one of several.
    """

    requests: Profile
    plans: Mapping[str, Plan]
    recording: str | None = None


class JudgedRows(NamedTuple):
    """Replayed requests of one stretch: its bounds, seconds since 1970, and the rows of the requests."""

    start_s: float
    end_s: float
    rows: NDArray[np.int64]
    recording: str | None


def by_time(started_s: Floats, edges_s: Floats) -> list[JudgedRows]:
    """Requests of each stretch between two bounds that has any."""
    at = np.searchsorted(edges_s, started_s, side="right") - 1
    found = (
        JudgedRows(float(edges_s[i]), float(edges_s[i + 1]), np.flatnonzero(at == i), None)
        for i in range(len(edges_s) - 1)
    )
    return [each for each in found if len(each.rows)]


def by_segment(segments: Sequence[Segment], times: int) -> list[JudgedRows]:
    """Requests of each segment, each repeated so many times."""
    found, first = [], 0
    for segment in segments:
        started_s = segment.requests.started_s
        end = float(np.nextafter(started_s.max(), np.inf))
        rows = np.arange(first, first + times * len(started_s))
        found.append(JudgedRows(float(started_s.min()), end, rows, segment.recording))
        first += len(rows)
    return found


def edges_of(started_s: Floats) -> Floats:
    """(k + 1,): bounds of stretches of a length that fits the requests' time, at full multiples of it."""
    first, last = float(started_s.min()), float(started_s.max())
    length = next(
        (each for each in STRETCHES_S if (last - first) / each <= MAX_STRETCHES),
        (last - first) / MAX_STRETCHES,
    )
    start = np.floor(first / length)
    return np.asarray(length * np.arange(start, np.floor(last / length) + 2))


def check_requests(later: Profile, sampled: float, *, where: str) -> None:
    """Check that a share of requests is in range, and that there are enough to judge by."""
    if not 0 < sampled <= 1:
        raise InputError(f"must be a share above 0 and at most 1, not {sampled}", where="sampled")
    if later.requests < MIN_REQUESTS:
        raise InputError(
            f"judging needs at least {MIN_REQUESTS} requests, and there are {later.requests}", where=where
        )
