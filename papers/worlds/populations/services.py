"""Synthetic populations with the statistics that Kwiken reports of its production DAGs (Figures 2.1 to 2.5).

The production traces are not public. The generators are fixed by their published summary, and by neutral
choices where it is silent; they are not adjusted to fit a result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from kwiken.base.arrays import Floats
from kwiken.model.latency import end_to_end
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile

DAGS = 45  # number of DAGs, as in the source
MAX_STAGES = 150  # stages of the largest DAG, as in the source


@dataclass(frozen=True)
class StageDistribution:
    """A stage of a synthetic DAG: log-normal latency cut by a system time-out.

    Attributes:
        log_median: log of the median latency in ms.
        sigma: standard deviation of the log of the latency; a number without unit.
        cap_ms: time-out, milliseconds; infinite for none.
    """

    name: str
    after: tuple[str, ...]
    log_median: float
    sigma: float
    cap_ms: float

    def draw(self, rng: np.random.Generator, size: int) -> Floats:
        """(size,) latencies, milliseconds."""
        return np.minimum(np.exp(self.log_median + self.sigma * rng.standard_normal(size)), self.cap_ms)


@dataclass(frozen=True)
class PopulationFit:
    """Parameters of one population.

    Attributes:
        mean_log_sd: standard deviation of the log of the stages' mean latencies.
        sigma_median: median of the stages' sigma.
        sigma_log_sd: standard deviation of the log of sigma within a DAG.
        shared_log_sd: standard deviation of the log of sigma between DAGs.
        slow_power: exponent with which sigma grows with the stage's mean.
        cap: time-out as a multiple of the median; infinite for none.
    """

    mean_log_sd: float
    means_ms: tuple[float, float]
    sigma_median: float
    sigma_log_sd: float
    shared_log_sd: float = 0.0
    slow_power: float = 0.0
    cap: float = math.inf


POPULATIONS = {
    "C": PopulationFit(
        mean_log_sd=2.0,
        means_ms=(1, 200),
        sigma_median=0.43,
        sigma_log_sd=0.4,
        shared_log_sd=0.3,
        slow_power=0.2,
        cap=40,
    ),
    "A": PopulationFit(mean_log_sd=1.15, means_ms=(1, 100), sigma_median=0.5, sigma_log_sd=0.53),
    "D": PopulationFit(
        mean_log_sd=2.0,
        means_ms=(1, 200),
        sigma_median=0.45,
        sigma_log_sd=0.4,
        shared_log_sd=0.3,
        slow_power=0.2,
        cap=30,
    ),
}


def population(
    calibration: PopulationFit, rng: np.random.Generator, *, dags: int = DAGS
) -> list[tuple[StageDistribution, ...]]:
    """Synthetic DAGs, smallest first; each a tuple of stages, parents before children.

    The number of stages follows the published quantiles (median 14, p90 81); layers, in-degrees and
    aggregators follow the published summary of their shapes (Kwiken Figures 2.1 to 2.5).

    Args:
        calibration: parameters of the population, for example one of `POPULATIONS`.
        dags: number of DAGs; their sizes are quantiles of the published distribution.
    """
    sizes = [_size((i + 0.5) / dags) for i in range(dags)]
    return [_dag(size, calibration, rng) for size in sizes]


def _size(share: float) -> int:
    return int(np.clip(round(math.exp(math.log(14) + 1.37 * float(ndtri(share)))), 1, MAX_STAGES))


def _dag(size: int, calibration: PopulationFit, rng: np.random.Generator) -> tuple[StageDistribution, ...]:
    parents = _parents(size, rng)
    shared = rng.normal(0, calibration.shared_log_sd) if calibration.shared_log_sd else 0.0
    return tuple(
        _stage(f"s{i}", tuple(f"s{p}" for p in sorted(parents[i])), calibration, shared, rng)
        for i in range(size)
    )


def _stage(
    name: str, after: tuple[str, ...], calibration: PopulationFit, shared: float, rng: np.random.Generator
) -> StageDistribution:
    mean = float(np.clip(rng.lognormal(math.log(10), calibration.mean_log_sd), *calibration.means_ms))
    middle = math.log(calibration.sigma_median) + shared
    sigma = rng.lognormal(middle, calibration.sigma_log_sd) * (mean / 10) ** calibration.slow_power
    sigma = float(np.clip(sigma, 0.05, 2))
    log_median = math.log(mean) - sigma * sigma / 2
    return StageDistribution(name, after, log_median, sigma, calibration.cap * math.exp(log_median))


def _parents(size: int, rng: np.random.Generator) -> list[set[int]]:
    layers = _layers(size, rng)
    parents: list[set[int]] = [set() for _ in range(size)]
    for i in range(size):
        if layers[i] > 0:
            parents[i] = _first_parents(i, layers, rng)
    _aggregate(parents, rng)
    _attach_childless(parents, rng)
    return parents


def _layers(size: int, rng: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(size,) ascending layer of each stage: at least one stage per layer, and exactly one in the last."""
    depth = int(np.clip(round(1.3 * math.sqrt(size) * rng.lognormal(0, 0.25)), min(2, size), size))
    free = rng.integers(0, max(1, depth - 1), size=size - depth)
    return np.sort(np.concatenate((np.arange(depth), free)))


def _first_parents(
    i: int, layers: np.ndarray[tuple[int], np.dtype[np.int64]], rng: np.random.Generator
) -> set[int]:
    """One parent in the previous layer, and a few more in earlier ones, nearer ones being more likely."""
    before = np.flatnonzero(layers == layers[i] - 1)
    chosen = {int(rng.choice(before))}
    earlier = np.flatnonzero(layers < layers[i])
    extra = min(int(rng.geometric(0.4)) - 1, len(earlier))
    if extra:
        weight = 1.0 / (layers[i] - layers[earlier])
        chosen.update(rng.choice(earlier, size=extra, replace=False, p=weight / weight.sum()).tolist())
    return chosen


def _aggregate(parents: list[set[int]], rng: np.random.Generator) -> None:
    """Give a few stages of the last two thirds many parents."""
    size = len(parents)
    late = np.arange(size // 3, size)
    late = late[late > 0]
    wanted = min(max(1, round(0.13 * size)), len(late))
    for i in rng.choice(late, size=wanted, replace=False).tolist() if wanted else ():
        many = min(40, max(2, int(0.3 * size * rng.uniform(0.3, 1))), i)
        parents[i].update(rng.choice(i, size=many, replace=False).tolist())


def _attach_childless(parents: list[set[int]], rng: np.random.Generator) -> None:
    """Attach every childless stage to a random later one, or to the last."""
    last = len(parents) - 1
    fed = set().union(*parents) if parents else set()
    for i in range(last):
        if i not in fed:
            later = int(rng.integers(i + 1, last + 1)) if rng.random() < 0.6 else last  # noqa: PLR2004
            parents[later].add(i)


def population_profile(dag: Sequence[StageDistribution], requests: int, rng: np.random.Generator) -> Profile:
    """Profile of a service with such a DAG: independent stages, requests at even intervals.

    Args:
        dag: stages, parents before children.
    """
    stages = tuple(
        StageProfile(
            name=stage.name,
            after=stage.after,
            match=SpanMatch(service="synthetic", operation=stage.name),
            calls_ms=stage.draw(rng, requests)[:, None],
            censored=np.zeros((requests, 1), dtype=np.bool_),
        )
        for stage in dag
    )
    return Profile(
        service="synthetic",
        stages=stages,
        latency_ms=end_to_end(stages, {stage.name: stage.latency_ms for stage in stages}),
        started_s=np.linspace(0, requests / 100, requests),
    )


def fan_out_queries(queries: int, rng: np.random.Generator, *, responders: int = 1000) -> Floats:
    """(queries, responders): latencies of a synthetic search fan-out, milliseconds.

    A speed per query and per responder, bursts of late responders in 8% of the queries, steps (many
    responders slow at once) in 2%, rare isolated stragglers, cut at 400 ms.
    """
    base = rng.lognormal(math.log(30), 0.35, size=(queries, 1))
    calls = base * rng.lognormal(0, 0.18, size=(queries, responders))
    for row in np.flatnonzero(rng.random(queries) < 0.08):  # noqa: PLR2004 - bursts
        late = rng.choice(responders, size=round(responders * rng.uniform(0.002, 0.015)), replace=False)
        calls[row, late] += rng.lognormal(math.log(140), 0.6, size=len(late))
    for row in np.flatnonzero(rng.random(queries) < 0.02):  # noqa: PLR2004 - steps
        late = rng.choice(responders, size=round(responders * rng.uniform(0.2, 0.7)), replace=False)
        calls[row, late] *= rng.uniform(1.5, 2.5)
    stragglers = rng.random(calls.shape) < 2e-5  # noqa: PLR2004
    calls[stragglers] += rng.lognormal(math.log(60), 0.5, size=int(stragglers.sum()))
    return np.minimum(calls, 400.0)
