"""Runs of short tasks on 100 servers: sample sizes, agents, loads, durations, and what runs beside them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from papers.worlds.tasks.kinds import TaskKind, drawn_kinds, kind_of
from papers.worlds.tasks.schedulers import POLICIES
from papers.worlds.tasks.simulation import TaskLoad, TaskOutcomes, simulate
from papers.worlds.tasks.units import UnitCluster

SERVERS, UNITS = 100, 8
KINDS: Final = 16
LOADS: Final = (0.1, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9)
SIZES: Final = (2, 4, 8, 16, 32, 64, 128)
AGENTS: Final = (1, 2, 3, 5, 8, 12, 16, 20)
DURATIONS_S: Final = (0.01, 0.1, 1.0, 10.0, 100.0, 600.0)
SPAN_S: Final = 2.0  # of the sweeps over 100 ms tasks
TASK_S: Final = 0.1
MET: Final = 1.5  # times its own time within which a task's target counts as met
SLOW: Final = 1.08  # mean run time over that alone, by which arrivals are thinned so that the load is met
QUERIES_S: Final = (0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0)  # stages of seven types of queries
CACHE: Final = (10, 5, 30, 10, 20, 25, 45, 15, 5, 50)  # pressure of one core of a memory cache
CACHE_P99_US: Final = 150.0  # of the cache alone; its target is 200
CACHE_SHARE: Final = 0.4  # of the units
WINDOW_S: Final = 7200.0  # of the releases that count
MIN_RELEASES: Final = 10  # fewer say nothing


class ReleaseHistory:
    """Moments at which units of one bucket became free. Times in seconds.

    A job that comes at a random moment waits for the rest of the gap that it falls into. So the mean wait is
    half the mean square of the gaps over their mean, which exceeds half a mean gap.
    """

    def __init__(self) -> None:
        self._gaps: deque[tuple[float, float]] = deque()  # (moment of the release, gap before it)
        self._last = inf

    def released(self, now: float) -> None:
        """Record that a unit is free from now on."""
        if self._last < now:
            self._gaps.append((now, now - self._last))
        self._last = now
        while self._gaps and self._gaps[0][0] < now - WINDOW_S:
            self._gaps.popleft()

    def mean_wait(self, units: int = 1) -> float:
        """Mean time until so many units are free, of a job that comes at a random moment.

        Args:
            units: number of units, 1 or more.
        """
        if len(self._gaps) < MIN_RELEASES:
            return inf
        gaps = [gap for _, gap in self._gaps]
        total, square = sum(gaps), sum(gap**2 for gap in gaps)
        return square / (2 * total) + (units - 1) * total / len(self._gaps)


def tasks(
    units: int, load: float, work_s: Floats | float, span_s: float, kinds: int, rng: np.random.Generator
) -> TaskLoad:
    """Poisson arrivals of tasks that keep a share of the units busy."""
    mean = float(np.mean(work_s)) * SLOW
    count = max(int(load * units * span_s / mean), 10)
    work = np.full(count, work_s) if isinstance(work_s, float) else rng.choice(work_s, count)
    return TaskLoad(np.sort(rng.random(count) * span_s), work, rng.integers(kinds, size=count))


def fresh(seed: int) -> tuple[UnitCluster, list[TaskKind], np.random.Generator]:
    """Equal servers without tasks, and kinds of tasks."""
    rng = np.random.default_rng([seed, 11])
    return UnitCluster([UNITS] * SERVERS, [0] * SERVERS), drawn_kinds(KINDS, 1, rng), rng


def run_one(load: float, draws: int, agents: int, seed: int, policy: str = "tarcil") -> TaskOutcomes:
    """Tasks of 100 ms under one policy."""
    units, kinds, rng = fresh(seed)
    wanted = tasks(len(units), load, TASK_S, SPAN_S, KINDS, rng)
    return simulate(units, kinds, wanted, POLICIES[policy], draws=draws, agents=agents, seed=seed)


def by_size(draws: int, seed: int) -> dict[str, float]:
    """Delay and response by load at one sample size."""
    found = {}
    for load in LOADS:
        out = run_one(load, draws, 10, seed)
        found[f"delay {load}"] = float(out.delay_s.mean()) * 1e3
        found[f"response {load}"] = float(out.response_s.mean()) * 1e3
        for quantile in (5, 25, 75, 95):
            found[f"p{quantile} {load}"] = float(np.quantile(out.response_s, quantile / 100)) * 1e3
        found[f"conflicts {load}"] = out.conflicts / len(out.delay_s)
        found[f"held {load}"] = float((out.held > 0).mean())
    return found


def by_agents(agents: int, seed: int) -> dict[str, float]:
    """Delay and share of tasks whose target is met by load, with some agents."""
    found = {}
    for load in (0.5, 0.75, 0.9):
        out = run_one(load, 8, agents, seed)
        found[f"delay {load}"] = float(out.delay_s.mean()) * 1e3
        found[f"met {load}"] = float((out.response_s <= MET * TASK_S).mean())
        found[f"conflicts {load}"] = out.conflicts / len(out.delay_s)
    return found


def by_duration(seed: int) -> dict[str, float]:
    """Response over the own time at 80% load, by duration."""
    found = {}
    for work in DURATIONS_S:
        units, kinds, rng = fresh(seed)
        wanted = tasks(len(units), 0.8, work, max(work * 12, SPAN_S / 2), KINDS, rng)
        out = simulate(units, kinds, wanted, POLICIES["tarcil"], seed=seed)
        ratio = out.response_s / work
        found[f"mean {work}"], found[f"p95 {work}"] = float(ratio.mean()), float(np.quantile(ratio, 0.95))
    return found


def with_background(
    units: UnitCluster, share: float, kinds: list[TaskKind], rng: np.random.Generator
) -> None:
    """Long work of others on a share of the units, which no tested scheduler manages."""
    for unit in rng.permutation(len(units))[: int(share * len(units))].tolist():
        units.take(unit, kinds[int(rng.integers(len(kinds)))])


def queries(variant: str, seed: int) -> dict[str, float]:
    """Stages of queries alone, beside work of others, and on unequal servers, under four policies.

    Args:
        variant: `alone`, `background` or `unequal`.
    """
    found = {}
    for policy in ("tarcil", "sampling", "centralised", "ideal"):
        rng = np.random.default_rng([seed, 12])
        platforms = 5 if variant == "unequal" else 1
        kinds = drawn_kinds(KINDS, platforms, rng)
        if variant == "unequal":
            sizes = rng.choice([8, 4, 16], SERVERS, p=[0.25, 0.5, 0.25])
            units = UnitCluster(sizes.tolist(), rng.integers(platforms, size=SERVERS).tolist())
        else:
            units = UnitCluster([UNITS] * SERVERS, [0] * SERVERS)
        busy = 0.0 if variant == "alone" else 0.4
        with_background(units, busy, kinds, rng)
        slower = 0.75 if variant == "unequal" else 1.0
        wanted = tasks(len(units), (0.78 - busy) * slower, np.array(QUERIES_S), 40.0, KINDS, rng)
        out = simulate(units, kinds, wanted, POLICIES[policy], seed=seed)
        later = wanted.arrival_s >= 40.0 / 3
        ratio = (out.response_s / wanted.work_s)[later]
        found[f"mean {policy}"], found[f"p95 {policy}"] = float(ratio.mean()), float(np.quantile(ratio, 0.95))
        found[f"delay {policy}"] = float(out.delay_s[later].mean()) * 1e3
        short = (out.response_s / wanted.work_s)[later & (wanted.work_s <= QUERIES_S[1])]
        found[f"short {policy}"], found[f"best {policy}"] = float(short.mean()), float(short.max())
    return found


def beside_a_cache(seed: int) -> dict[str, float]:
    """Tasks of 100 ms beside a memory cache on 40% of the units: times of both."""
    found = {}
    cache = kind_of(CACHE)
    for policy in ("tarcil", "sampling", "centralised"):
        rng = np.random.default_rng([seed, 13])
        kinds = drawn_kinds(KINDS, 1, rng)
        units = UnitCluster([UNITS] * SERVERS, [0] * SERVERS)
        with_background(units, CACHE_SHARE, [cache], rng)
        worst: list[float] = []

        def look(
            _: float, __: Mapping[int, TaskKind], units: UnitCluster = units, worst: list[float] = worst
        ) -> None:
            kept = [units.performance(server, cache, own=True) for server in range(SERVERS)]
            worst.append(CACHE_P99_US / float(np.quantile(kept, 0.01)))

        load = TaskLoad(*_jobs_of_twenty(len(units), 0.417, rng))
        out = simulate(units, kinds, load, POLICIES[policy], seed=seed, look=look, look_every_s=0.25)
        found[f"p99 {policy}"] = float(np.median(worst))
        for quantile in (50, 80, 95):
            found[f"p{quantile} {policy}"] = float(np.quantile(out.response_s, quantile / 100)) * 1e3
    return found


def _jobs_of_twenty(
    units: int, load: float, rng: np.random.Generator
) -> tuple[Floats, Floats, np.typing.NDArray[np.int64], np.typing.NDArray[np.int64]]:
    """Jobs of 20 tasks of 100 ms, for ten seconds."""
    jobs = int(load * units * 10.0 / TASK_S / 20)
    at = np.sort(rng.random(jobs) * 10.0)
    number = np.repeat(np.arange(jobs), 20)
    return at[number], np.full(len(number), TASK_S), rng.integers(KINDS, size=jobs)[number], number


def waits(seed: int) -> dict[str, float]:
    """Error of the mean wait for a unit that the releases of the first half predict for the second.

    Three buckets: large servers pressed on the processor, large ones on the network, small ones on memory.
    """
    errors = []
    for bucket, (units, gap_s) in enumerate(((8, 0.6), (8, 1.1), (2, 2.3))):
        rng = np.random.default_rng([seed, 14, bucket])
        runs = rng.lognormal(0.0, 1.0, (2, 3000)) * gap_s * units  # of the tasks on the bucket's units
        history = ReleaseHistory()
        first, second = (np.sort(np.cumsum(part.reshape(units, -1), axis=1).ravel()) for part in runs)
        first, second = first[first < WINDOW_OF_BUCKETS_S], second[second < WINDOW_OF_BUCKETS_S]
        for moment in first.tolist():
            history.released(moment)
        asked = rng.uniform(second[10], second[-10], 2000)
        actual = second[np.searchsorted(second, asked)] - asked
        errors.append(abs(history.mean_wait() / float(actual.mean()) - 1))
    return {"error": float(np.mean(errors))}


WINDOW_OF_BUCKETS_S: Final = 600.0
