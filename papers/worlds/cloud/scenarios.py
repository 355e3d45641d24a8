"""Scenarios of the source: load curves in cores, and jobs that add up to them (HCloud Table 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from kwiken.base.arrays import Bools, Floats, Ints
from papers.worlds.cloud.weather import RESOURCES
from papers.worlds.quality import encode, quality_share

ARRIVALS: Final = 7200  # one a second for two hours
MEAN_LENGTH_S: Final = 486.0  # 8.1 minutes
LATENCY_SHARE: Final = 0.195  # of the jobs
# Cores of a latency-critical job over those of a batch job; 2.7 in the source, and whole cores even it out.
LATENCY_CORES: Final = 3.3
MAX_CORES: Final = 16
CORES_LEAST: Final = 1.25  # mean cores of a job below which jobs become shorter instead
CATCH_UP_S: Final = 40.0  # time in which the draw corrects the cores in flight
MINUTE: Final = 60.0


def _static(minute: Floats) -> Floats:
    load: Floats = 854 * (1 + 0.05 * np.sin(2 * np.pi * minute / 40))
    return load


def _low(minute: Floats) -> Floats:
    load: Floats = np.interp(minute, [0, 40, 55, 75, 90], [605, 605, 900, 900, 605]).astype(np.float64)
    return load


def _high(minute: Floats) -> Floats:
    base = 255 + 45 * np.sin(2 * np.pi * minute / 50)
    first = 1226 * np.clip(1 - np.abs(minute - 32) / 10, 0, 1)
    second = 1100 * np.clip(1 - np.abs(minute - 60) / 10, 0, 1)
    load: Floats = np.maximum(base, np.maximum(first, second))
    return load


CLOUD_SCENARIOS: Final[Mapping[str, Callable[[Floats], Floats]]] = MappingProxyType(
    {"static": _static, "low": _low, "high": _high}
)
FLOORS: Final = MappingProxyType({"static": 800.0, "low": 605.0, "high": 210.0})


@dataclass(frozen=True, eq=False)
class CloudJobs:
    """Jobs of a scenario, in the order of their arrival.

    Attributes:
        arrival_s: (n,) moment of arrival, seconds.
        length_s: (n,) time alone on a node that fits, seconds.
        cores: (n,) number of cores that a job needs.
        latency: (n,) whether the job is latency-critical; the others are batch.
        caused: (n, 10) pressure that it causes, an integer from 0 to 99.
        tolerated: (n, 10) pressure that it tolerates, in units from 0 to 99.
        weights: (n, 10) weight of each resource in what it loses, of sum 1.
        quality: (n,) quality that it demands, a share.
        floor: number of cores of the steady load.
    """

    scenario: str
    arrival_s: Floats
    length_s: Floats
    cores: Ints
    latency: Bools
    caused: Ints
    tolerated: Floats
    weights: Floats
    quality: Floats
    floor: float

    def ideal_cores(self, step_s: float = 10.0) -> Floats:
        """(n,) Number of cores in flight if every job ran at once, over time."""
        ends = self.arrival_s + self.length_s
        edges = np.arange(0.0, float(self.arrival_s[-1]), step_s)
        order, back = np.argsort(self.arrival_s), np.argsort(ends)
        started = np.concatenate([[0.0], np.cumsum(self.cores[order])])
        ended = np.concatenate([[0.0], np.cumsum(self.cores[back])])
        found: Floats = (
            started[np.searchsorted(self.arrival_s[order], edges, side="right")]
            - ended[np.searchsorted(ends[back], edges, side="right")]
        )
        return found


def draw_jobs(scenario: str, seed: int, *, latency_share: float = LATENCY_SHARE) -> CloudJobs:
    """Jobs of a scenario.

    The cores of each job make up for what the curve lacks. A job stands on a level of the curve, and ends
    when the curve falls below that level, or after a time of exponential law.

    Args:
        scenario: name of the scenario, of `CLOUD_SCENARIOS`.
        latency_share: share of latency-critical jobs.

    Raises:
        KeyError: no such scenario.
    """
    rng = np.random.default_rng((seed, sorted(CLOUD_SCENARIOS).index(scenario), 17))
    seconds = np.arange(2 * ARRIVALS, dtype=np.float64)
    curve = CLOUD_SCENARIOS[scenario](seconds / MINUTE)
    latency = rng.random(ARRIVALS) < latency_share
    mean_factor = 1 + (LATENCY_CORES - 1) * latency_share
    size = np.where(latency, LATENCY_CORES, 1.0) / mean_factor
    spread = rng.lognormal(-0.08, 0.4, ARRIVALS)
    # A job has one core or more, so that no more jobs can be in flight than there are cores.
    mean_s = np.minimum(1.06 * MEAN_LENGTH_S, curve[:ARRIVALS] / CORES_LEAST)
    drawn_s = np.clip(rng.exponential(mean_s), 40.0, 2700.0)
    levels, rounding = rng.random(ARRIVALS), rng.random(ARRIVALS)
    # At the start the cores are in flight already: they are spread over the first minutes.
    leaving = np.zeros(3 * ARRIVALS)
    flight = 0.0
    cores, length_s = np.empty(ARRIVALS, dtype=np.int64), np.empty(ARRIVALS)
    for at in range(ARRIVALS):
        flight -= leaving[at]
        target = curve[at + 1]
        ahead = min(at + round(CATCH_UP_S), len(curve) - 1)
        lacking = curve[ahead] - flight + leaving[at + 1 : at + 1 + round(CATCH_UP_S)].sum()
        wanted = max(0.4, lacking / CATCH_UP_S) * size[at] * spread[at]
        cores[at] = int(np.clip(np.floor(wanted + rounding[at]), 1, MAX_CORES))
        level = levels[at] * target
        falls = np.flatnonzero(curve[at + 1 : at + 2701] < level)
        until = float(falls[0]) if len(falls) else np.inf
        length_s[at] = max(40.0, min(drawn_s[at], until))
        flight += cores[at]
        leaving[at + max(1, int(length_s[at]))] += cores[at]
    return _with_profiles(scenario, rng, cores, length_s, latency)


def _with_profiles(
    scenario: str, rng: np.random.Generator, cores: Ints, length_s: Floats, latency: Bools
) -> CloudJobs:
    """Draw what jobs cause and tolerate: one to three resources dominate."""
    count = len(cores)
    caused = rng.integers(0, 15, (count, RESOURCES))
    dominant = rng.integers(1, 4, count)
    heights = np.where(latency, rng.uniform(55, 99, count), rng.uniform(10, 75, count))
    for job in range(count):
        chosen = rng.choice(RESOURCES, dominant[job], replace=False)
        caused[job, chosen] = np.round(heights[job] * rng.uniform(0.8, 1.0, dominant[job])).astype(np.int64)
    weights = caused.astype(np.float64) ** 2
    weights /= weights.sum(axis=1, keepdims=True)
    tolerated = np.clip(85.0 - 0.85 * caused, 0.0, 85.0)
    quality = np.array([quality_share(encode([int(one) for one in row]), RESOURCES) for row in caused])
    return CloudJobs(
        scenario=scenario,
        arrival_s=np.arange(count, dtype=np.float64),
        length_s=length_s,
        cores=cores,
        latency=latency,
        caused=caused,
        tolerated=tolerated,
        weights=weights,
        quality=quality,
        floor=FLOORS[scenario],
    )
