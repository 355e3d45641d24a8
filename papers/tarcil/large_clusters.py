"""Runs of mixed jobs on 200 and 400 unequal servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from papers.tarcil.states import quality_of
from papers.worlds.tasks.kinds import TaskKind, drawn_kinds
from papers.worlds.tasks.schedulers import POLICIES
from papers.worlds.tasks.simulation import TaskLoad, simulate
from papers.worlds.tasks.units import UnitCluster

SIZES: Final = (4, 8, 8, 16, 32)
PLATFORMS: Final = 10
KINDS: Final = 40
SCALE: Final = 0.95  # tasks of a job, as a factor of those that the classes name
NEAR: Final = 0.9  # of the best performance, from which on a job is near optimal
# Share, tasks and range of the run time of the classes of jobs: short ones, batch, and services. The last two
# are drawn so that about 70% of the units are busy while jobs arrive.
CLASSES: Final = ((0.54, 10, (0.5, 10.0)), (0.30, 16, (60.0, 500.0)), (0.16, 6, (500.0, 3600.0)))
JOBS: Final = 7200
MANAGERS: Final = ("tarcil", "tarcil by prediction", "centralised", "sampling")


def mixed_jobs(count: int, scale: float, rng: np.random.Generator) -> TaskLoad:
    """One job a second, each with several tasks.

    Args:
        scale: factor on the number of tasks, by which the load is met.
    """
    classes = rng.choice(len(CLASSES), count, p=[share for share, _, _ in CLASSES])
    numbers, works, kinds = [], [], []
    for job, place in enumerate(classes.tolist()):
        _, most, (least_s, most_s) = CLASSES[place]
        tasks = max(1, int(rng.integers(1, 2 * most) * scale))
        numbers += [job] * tasks
        works.append(np.full(tasks, float(np.exp(rng.uniform(np.log(least_s), np.log(most_s))))))
        kinds += [int(rng.integers(KINDS))] * tasks
    job_of = np.array(numbers)
    return TaskLoad(job_of.astype(np.float64), np.concatenate(works), np.array(kinds), job_of)


def large(seed: int) -> dict[str, float]:
    """400 servers and 7,200 jobs: performance of the jobs over the best, delays, quality of the units."""
    found: dict[str, float] = {}
    for manager in MANAGERS:
        rng = np.random.default_rng([seed, 21])
        kinds = drawn_kinds(KINDS, PLATFORMS, rng)
        units = UnitCluster(rng.choice(SIZES, 400).tolist(), rng.integers(PLATFORMS, size=400).tolist())
        load = mixed_jobs(JOBS, len(units) / 4178 * SCALE, rng)
        looks: list[Floats] = []

        def look(
            _: float,
            running: Mapping[int, TaskKind],
            units: UnitCluster = units,
            looks: list[Floats] = looks,
        ) -> None:
            if len(looks) < MAX_LOOKS:
                sample = list(running.items())[:: max(len(running) // 500, 1)]
                quality = np.array([quality_of(units, unit, kind) for unit, kind in sample])
                looks.append(quality)

        out = simulate(units, kinds, load, POLICIES[manager], seed=seed, look=look, look_every_s=2000.0)
        assert load.job is not None
        ratio = np.bincount(load.job, load.work_s / out.response_s) / np.bincount(load.job)
        found[f"mean {manager}"] = float(ratio.mean())
        found[f"worst {manager}"] = float(ratio.min())
        found[f"near {manager}"] = float((ratio >= NEAR).mean())
        found[f"end {manager}"] = out.end_s
        _add_looks(found, manager, looks)
        delay = np.bincount(load.job, out.delay_s) / np.bincount(load.job)
        found[f"delay {manager}"] = float(np.median(delay))
        found[f"quick {manager}"] = float((delay <= 0.15).mean())  # noqa: PLR2004 - 150 ms, of the source
    return found


MAX_LOOKS: Final = 4  # at 2,000, 4,000, 6,000 and 8,000 s


def _add_looks(found: dict[str, float], manager: str, looks: list[Floats]) -> None:
    quality = looks[-1] if looks else np.ones(1)
    found[f"high {manager}"] = float((quality >= 0.9).mean())  # noqa: PLR2004 - of the source
    found[f"low {manager}"] = float((quality < 0.4).mean())  # noqa: PLR2004


def motivation(seed: int) -> dict[str, float]:
    """200 servers at 80%: performance of jobs of three classes under three policies."""
    found: dict[str, float] = {}
    classes = {"100 ms": (0.1, 0.1), "1 to 10 s": (1.0, 10.0), "10 s to 10 min": (10.0, 600.0)}
    span = {"100 ms": 2.0, "1 to 10 s": 40.0, "10 s to 10 min": 1500.0}
    for name, (least, most) in classes.items():
        for manager in ("sampling", "centralised", "tarcil"):
            rng = np.random.default_rng([seed, 22])
            kinds = drawn_kinds(KINDS, 1, rng)
            units = UnitCluster([8] * 200, [0] * 200)
            mean = (most - least) / np.log(most / least) if most > least else least
            jobs = int(0.75 * len(units) * span[name] / mean / 16)
            at = np.sort(rng.random(jobs) * span[name])
            job = np.repeat(np.arange(jobs), 16)
            work = np.exp(rng.uniform(np.log(least), np.log(most), jobs))[job]
            load = TaskLoad(at[job], work, rng.integers(KINDS, size=jobs)[job], job)
            out = simulate(units, kinds, load, POLICIES[manager], seed=seed)
            ratio = np.bincount(job, work / out.response_s) / 16
            found[f"median {name} {manager}"] = float(np.median(ratio))
            found[f"p5 {name} {manager}"] = float(np.quantile(ratio, 0.05))
    return found
