"""Runs of the planner, by seed: batches, arrivals, queries, load, background, wrong sizes, moved starts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kwiken.batch.rack_simulation.schedulers import YarnLike
from kwiken.batch.racks.document import place_data
from kwiken.batch.racks.planning import plan_racks
from kwiken.batch.racks.problem import problem_of
from kwiken.batch.racks.response import RackHardware, RackJob, RackStage, rack_response_s
from papers.corral.heuristic import gap, online_bound_as_printed_s, plan_as_published
from papers.corral.runs import (
    FIRST_SEED,
    compared,
    figures_of,
    planned,
    scheduler_of,
    simulated,
)
from papers.corral.workloads import (
    BLOCK,
    FLOW_GRAIN_S,
    FLOW_JOBS,
    FLOW_RACK,
    FLOW_RACKS,
    FLOW_S,
    GBPS,
    ONLINE_BYTES,
    ONLINE_S,
    RACKS,
    TESTBED,
    UPLINK_GBPS,
    queries,
    rack_of_testbed,
    size_bin,
    w1,
    w2,
    w3,
)

WORKLOADS: Final = ("W1", "W2", "W3")
BATCH_JOBS: Final = 100
ONLINE_JOBS: Final = 100
AD_HOC: Final = (50, 100, 150, 300, 350)
RATES: Final = (50, 100, 200, 300)  # jobs an hour
BACKGROUNDS: Final = (30.0, 40.0)
SIZE_ERRORS: Final = (0.0, 0.1, 0.25, 0.5)
MOVED: Final = (0.0, 0.25, 0.5)
MOVED_S: Final = 240.0
ROUNDING: Final = 1e-9
FiguresByName = Mapping[str, Mapping[str, float]]


def online_w1(seed: int, jobs: int = ONLINE_JOBS, prefix: str = "w1") -> list[RackJob]:
    """W1 with arrivals over an hour."""
    return w1(jobs, seed, span_s=ONLINE_S, block=BLOCK * ONLINE_BYTES, prefix=prefix)


def jobs_of(name: str, seed: int, *, online: bool) -> list[RackJob]:
    """Jobs of a workload, as a batch or over an hour."""
    span_s = ONLINE_S if online else 0.0
    if name == "W1":
        return online_w1(seed) if online else w1(BATCH_JOBS, seed)
    return w2(seed, span_s=span_s) if name == "W2" else w3(seed, span_s=span_s)


def batch(name: str, seed: int) -> dict[str, FiguresByName | float]:
    """A workload as a batch under each scheduler, the plan's gap, and the bytes on racks."""
    seed += FIRST_SEED
    jobs = jobs_of(name, seed, online=False)
    found = planned(jobs, RACKS, TESTBED, "makespan")
    racks_of = found.schedule.racks_of(RACKS)
    sizes = found.problem.input_bytes
    chance = np.random.default_rng([seed, 21])
    random_load = np.zeros(RACKS)
    for size in sizes.tolist():  # each block's replicas on two random racks, one and two of them
        blocks = max(1, int(size / BLOCK))
        random_load += size / blocks * chance.multinomial(blocks, np.full(RACKS, 1 / RACKS))
        random_load += 2 * size / blocks * chance.multinomial(blocks, np.full(RACKS, 1 / RACKS))
    widths = dict(zip(found.problem.names, found.schedule.widths.tolist(), strict=True))
    giants = [width for each, width in widths.items() if each.startswith("giant")]
    others = [width for each, width in widths.items() if not each.startswith("giant")]
    plain = plan_racks(found.problem, "makespan")
    return {
        "schedulers": compared(jobs, seed, "makespan", racks=RACKS, rack=TESTBED),
        "gap": gap(plain, "makespan"),
        "heuristic gap": gap(plan_as_published(found.problem, "makespan"), "makespan"),
        "giants": float(np.mean(giants)) if giants else 0.0,
        "others": float(np.median(others)),
        "variation": place_data(sizes, racks_of, RACKS).variation,
        "variation at random": float(random_load.std() / random_load.mean()),
    }


def online(name: str, seed: int) -> dict[str, FiguresByName | float]:
    """A workload over an hour under each scheduler, and the plan's gaps."""
    seed += FIRST_SEED
    jobs = jobs_of(name, seed, online=True)
    rows = [(job.name, job.arrival_s, job.input_bytes, rack_response_s(job, RACKS, TESTBED)) for job in jobs]
    problem = problem_of(rows)
    found = plan_racks(problem, "mean")
    means: dict[str, FiguresByName | float] = {
        "over printed": found.objective_s / online_bound_as_printed_s(problem) - 1,
        "over stronger": gap(found, "mean"),
        "heuristic over stronger": gap(plan_as_published(problem, "mean"), "mean"),
        "schedulers": compared(jobs, seed, "mean", racks=RACKS, rack=TESTBED),
    }
    if name == "W1":
        means["bins"] = _bins(jobs, seed)
    return means


def _bins(jobs: Sequence[RackJob], seed: int) -> FiguresByName:
    out: dict[str, dict[str, float]] = {}
    bins = np.array([size_bin(job) for job in jobs])
    for name in ("Yarn-CS", "Corral", "ShuffleWatcher"):
        scheduler = scheduler_of(name, jobs, RACKS, TESTBED, "mean")
        done = simulated(jobs, scheduler, seed, racks=RACKS, rack=TESTBED).completion_s
        out[name] = {each: float(done[bins == each].mean()) for each in ("small", "medium", "large")}
    return out


def dags(seed: int) -> FiguresByName:
    """Queries beside a batch of W1 under Yarn-CS."""
    seed += FIRST_SEED
    jobs = queries(seed)
    beside = w1(BATCH_JOBS // 2, seed, prefix="beside")
    return {name: _part(name, jobs, beside, seed)[0] for name in ("Yarn-CS", "Corral")}


def _part(
    name: str, jobs: Sequence[RackJob], ad_hoc: Sequence[RackJob], seed: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Figures of jobs that a plan may know, and of jobs that it does not, which run together."""
    scheduler = scheduler_of(name, jobs, RACKS, TESTBED, "mean")
    both = [*jobs, *ad_hoc]
    found = simulated(both, scheduler, seed, racks=RACKS, rack=TESTBED)
    known = np.arange(len(both)) < len(jobs)
    parts = []
    for mask in (known, ~known):
        done = found.completion_s[mask]
        parts.append(
            {
                "mean": float(done.mean()),
                "median": float(np.median(done)),
                "p90": float(np.percentile(done, 90)),
                "makespan": float(found.ends_s[mask].max() - found.arrivals_s[mask].min()),
            }
        )
    return parts[0], parts[1]


def mixed(number: int, seed: int) -> dict[str, Mapping[str, Mapping[str, float]]]:
    """Recurring and ad hoc jobs together, by scheduler."""
    seed += FIRST_SEED
    jobs = online_w1(seed)
    ad_hoc = w1(number, seed + 7000, prefix="adhoc")
    out: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for name in ("Yarn-CS", "Corral"):
        known, unknown = _part(name, jobs, ad_hoc, seed)
        out[name] = {"recurring": known, "ad hoc": unknown}
    return out


def loaded(rate: int, seed: int) -> FiguresByName:
    """W1 over an hour at a rate of jobs."""
    seed += FIRST_SEED
    jobs = online_w1(seed, rate)
    return compared(jobs, seed, "mean", racks=RACKS, rack=TESTBED, names=("Yarn-CS", "Corral"))


def beside_background(gbps: float, seed: int) -> dict[str, FiguresByName]:
    """W1 as a batch and over an hour, with background traffic on the uplinks."""
    seed += FIRST_SEED
    rack = rack_of_testbed(UPLINK_GBPS - gbps)
    names = ("Yarn-CS", "Corral")
    return {
        "batch": compared(w1(BATCH_JOBS, seed), seed, "makespan", racks=RACKS, rack=rack, names=names),
        "online": compared(online_w1(seed), seed, "mean", racks=RACKS, rack=rack, names=names),
    }


def without_bottleneck(seed: int) -> FiguresByName:
    """W1 as a batch with full bisection bandwidth and no background."""
    seed += FIRST_SEED
    rack = RackHardware(TESTBED.slots, TESTBED.machines, TESTBED.nic_bytes_per_s, 300 * GBPS)
    names = ("Yarn-CS", "Corral")
    return compared(w1(BATCH_JOBS, seed), seed, "makespan", racks=RACKS, rack=rack, names=names)


def wrong_sizes(error: float, seed: int) -> FiguresByName:
    """W1 as a batch, planned by sizes that are wrong by up to an error."""
    seed += FIRST_SEED
    jobs = w1(BATCH_JOBS, seed)
    chance = np.random.default_rng([seed, 22])
    guessed = []
    for job in jobs:
        factor = 1 + float(chance.uniform(-error, error))
        stages = tuple(
            RackStage(
                max(1, round(stage.tasks * factor)),
                stage.task_s,
                stage.shuffled_bytes * factor,
                stage.parents,
            )
            for stage in job.stages
        )
        guessed.append(dataclasses.replace(job, stages=stages, input_bytes=job.input_bytes * factor))
    return _planned_by(guessed, jobs, seed, "makespan")


def moved_starts(share: float, seed: int) -> FiguresByName:
    """W1 over an hour, where a share of the jobs starts up to four minutes earlier or later than planned."""
    seed += FIRST_SEED
    jobs = online_w1(seed)
    chance = np.random.default_rng([seed, 23])
    real = [
        dataclasses.replace(
            job,
            arrival_s=max(0.0, job.arrival_s + float(chance.uniform(-MOVED_S, MOVED_S)))
            if chance.random() < share
            else job.arrival_s,
        )
        for job in jobs
    ]
    return _planned_by(jobs, real, seed, "mean")


def _planned_by(guessed: Sequence[RackJob], real: Sequence[RackJob], seed: int, kind: str) -> FiguresByName:
    out = {}
    for name in ("Yarn-CS", "Corral"):
        scheduler = scheduler_of(name, guessed, RACKS, TESTBED, "makespan" if kind == "makespan" else "mean")
        out[name] = figures_of(simulated(real, scheduler, seed, racks=RACKS, rack=TESTBED))
    return out


def flow_level(seed: int) -> FiguresByName:
    """Pairs of job and flow scheduler, W1 over 15 minutes on racks of 1 Gbit/s."""
    seed += FIRST_SEED
    jobs = w1(FLOW_JOBS, seed, span_s=FLOW_S, block=BLOCK * ONLINE_BYTES)
    out = {}
    for name in ("Yarn-CS", "Corral"):
        scheduler = (
            YarnLike() if name == "Yarn-CS" else scheduler_of(name, jobs, FLOW_RACKS, FLOW_RACK, "mean")
        )
        for varys in (False, True):
            found = simulated(
                jobs, scheduler, seed, racks=FLOW_RACKS, rack=FLOW_RACK, varys=varys, grain_s=FLOW_GRAIN_S
            )
            out[f"{name}, {'Varys' if varys else 'TCP'}"] = figures_of(found)
    return out
