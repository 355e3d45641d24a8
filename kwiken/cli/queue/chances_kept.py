"""Calibration of the chances that `kwiken queue` told, from the journal of the jobs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kwiken.runtime.cluster.state.jobs.documents import EventKind, JobEvent

BANDS: Final = (0.2, 0.4, 0.6, 0.8, 1.0)  # upper ends of the chances that are counted together


@dataclass(frozen=True)
class ChanceBand:
    """Chances of about the same height, and what came of them.

    Attributes:
        within_s: time that the chances were for, seconds.
        told: mean of the chances.
        came_true: share of the jobs that had a node within that time.
    """

    within_s: float
    jobs: int
    told: float
    came_true: float


def chance_bands(events: Iterable[JobEvent], horizons_s: Sequence[float], now_s: float) -> list[ChanceBand]:
    """Compare the chances told at arrivals with the waits.

    A job counts for a time if it started, or has waited for longer; one that was cancelled before does not.

    Args:
        events: events of the journal, oldest first.
        horizons_s: times that the chances are for, seconds.
        now_s: present moment, seconds since 1970.
    """
    told: dict[str, JobEvent] = {}
    waits: dict[str, float] = {}
    gone: set[str] = set()
    for event in events:
        if event.kind is EventKind.ARRIVED and len(event.chances) == len(horizons_s):
            told[event.job] = event
        elif event.kind is EventKind.PLACED and event.job in told:
            waits.setdefault(event.job, event.at - told[event.job].at)
        elif event.kind is EventKind.CANCELLED:
            gone.add(event.job)
    found = []
    for place, within_s in enumerate(horizons_s):
        cases = [
            (arrived.chances[place], waits.get(job, float("inf")) <= within_s)
            for job, arrived in told.items()
            if job in waits or (now_s - arrived.at > within_s and job not in gone)
        ]
        low = 0.0
        for high in BANDS:
            those = [case for case in cases if low < case[0] <= high or (low == case[0] == 0.0)]
            if those:
                count = len(those)
                mean = sum(chance for chance, _ in those) / count
                true = sum(came for _, came in those) / count
                found.append(ChanceBand(within_s, count, mean, true))
            low = high
    return found
