"""Runs of generated jobs under each scheduler, and rows of levels and orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.batch.rack_simulation.schedulers import JobPlace, JobScheduler, Planned, YarnLike, remote_share
from kwiken.batch.rack_simulation.simulation import (
    MIN_SHARE,
    FlowTable,
    RacksOutcome,
    max_min_rates,
    simulate_racks,
)
from kwiken.batch.racks.document import rack_plan
from kwiken.batch.racks.planning import PlannedRacks, plan_racks
from kwiken.batch.racks.problem import RackProblem, problem_of
from kwiken.batch.racks.response import RackHardware, RackJob, rack_response_s
from kwiken.batch.racks.schedule import Objective
from papers.corral.heuristic import penalised, plan_as_published, without_penalty
from papers.figures.rows import FigureRow, median_row, order_row

OWN: Final = "own plan"  # with prices and exchanges
SCHEDULERS: Final = ("Yarn-CS", "Corral", "LocalShuffle", "ShuffleWatcher", OWN)
FIRST_SEED: Final = 100  # the first seeds were seen while a mistake was in the runs
MIN_GAIN: Final = 0.01  # relative; less is a tie, and a tie is no order


def planned(
    jobs: Sequence[RackJob], racks: int, rack: RackHardware, kind: Objective, *, published: bool = True
) -> PlannedRacks:
    """Plan of jobs with the source's penalty for data.

    Args:
        published: whether by the source's heuristic; else with this project's prices and exchanges.
    """
    rows = [(job.name, job.arrival_s, job.input_bytes, rack_response_s(job, racks, rack)) for job in jobs]
    problem = problem_of(rows)
    times = penalised(problem.response_s, problem.input_bytes, 1.0 / rack.uplink_bytes_per_s)
    weighed = RackProblem(problem.names, problem.arrivals_s, problem.input_bytes, times)
    found = plan_as_published(weighed, kind) if published else plan_racks(weighed, kind)
    return without_penalty(found.schedule, problem, kind)


def scheduler_of(
    name: str, jobs: Sequence[RackJob], racks: int, rack: RackHardware, kind: Objective
) -> JobScheduler:
    """Scheduler by its name; those that follow a plan plan these jobs."""
    if name == "Yarn-CS":
        return YarnLike()
    if name == "ShuffleWatcher":
        return ShuffleWatcher(rack.slots)
    found = planned(jobs, racks, rack, kind, published=name != OWN)
    document = rack_plan(found, kind, [str(number) for number in range(racks)])
    return Planned(
        {job.name: [int(number) for number in job.racks] for job in document.jobs},
        {job.name: job.priority for job in document.jobs},
        data_placed=name != "LocalShuffle",
    )


def simulated(
    jobs: Sequence[RackJob],
    scheduler: JobScheduler,
    seed: int,
    *,
    racks: int,
    rack: RackHardware,
    varys: bool = False,
    grain_s: float = 0.5,
) -> RacksOutcome:
    """Outcome of jobs under a scheduler, with flows shared by max-min or by Varys."""
    rates = smallest_bottleneck_rates if varys else max_min_rates
    return simulate_racks(jobs, racks, rack, scheduler, rates=rates, seed=seed, grain_s=grain_s)


def level(figure: str, metric: str, values: Sequence[float], source: str = "", note: str = "") -> FigureRow:
    """FigureRow of a median over seeds, with the range."""
    return median_row(figure, metric, values, source, note)


def order(figure: str, metric: str, held: Sequence[bool], source: str = "") -> FigureRow:
    """FigureRow of an order."""
    return order_row(figure, metric, held, source)


def below(first: float, second: float) -> bool:
    """Whether a value is below another by more than a tie."""
    return first < second * (1 - MIN_GAIN)


def change(new: float, old: float) -> float:
    """Change of a value, percent."""
    return 100 * (new / old - 1.0) if old else 0.0


def figures_of(outcome: RacksOutcome) -> dict[str, float]:
    """Figures of one outcome, by name."""
    done = outcome.completion_s
    reduces = (
        np.repeat(outcome.reduce_s, outcome.reduce_tasks.astype(np.int64)) if len(outcome.reduce_s) else done
    )
    return {
        "makespan": outcome.makespan_s,
        "mean": float(done.mean()),
        "median": float(np.median(done)),
        "p90": float(np.percentile(done, 90)),
        "bytes": outcome.crossing_bytes,
        "hours": outcome.slot_s / 3600,
        "reduce p50": float(np.median(reduces)),
        "reduce p90": float(np.percentile(reduces, 90)),
        "load": outcome.greatest_load,
    }


def compared(
    jobs: Sequence[RackJob],
    seed: int,
    kind: Objective,
    *,
    racks: int,
    rack: RackHardware,
    names: Sequence[str] = SCHEDULERS,
) -> Mapping[str, Mapping[str, float]]:
    """Figures of jobs under each scheduler, by its name."""
    return {
        name: figures_of(
            simulated(jobs, scheduler_of(name, jobs, racks, rack, kind), seed, racks=racks, rack=rack)
        )
        for name in names
    }


@dataclass(frozen=True)
class ShuffleWatcher:
    """ShuffleWatcher: the set of racks that moves the fewest bytes over the core, for each job by itself.

    Few racks keep a shuffle local; many find more of the input, which is spread at random. Neither other jobs
    nor the load of racks count, and racks of a size are equal, so the set is drawn.
    """

    slots_a_rack: int
    name: str = "ShuffleWatcher"

    def place(self, job: RackJob, racks: int, waiting_slots: Ints, chance: np.random.Generator) -> JobPlace:
        """Racks with the fewest bytes over the core; by arrival."""
        del waiting_slots
        numbers = np.arange(1, racks + 1)
        shuffled = sum(stage.shuffled_bytes for stage in job.stages)
        remote = np.array([remote_share(int(number), racks) for number in numbers])
        crossing = job.input_bytes * remote + shuffled * (numbers - 1) / numbers
        width = int(numbers[int(np.argmin(crossing))])
        own = np.sort(chance.permutation(racks)[:width])
        return JobPlace((1.0, job.arrival_s), own, float(remote[width - 1]))


def smallest_bottleneck_rates(flows: FlowTable, links: Floats, task_bytes_per_s: float) -> Floats:
    """Rates by coflow, as Varys: the coflow that could end first gets the links it needs, then the next.

    All flows of a coflow get the rates at which they end together. What is left is shared by max-min.

    Args:
        links: (2 R,) bandwidth of the uplinks, then of the downlinks, bytes per second.
        task_bytes_per_s: most that one task fetches, bytes per second.
    """
    racks = len(links) // 2
    numbers, coflow = np.unique(flows.coflow, return_inverse=True)
    load = np.zeros((len(numbers), 2 * racks))
    np.add.at(load, (coflow, flows.source), flows.left)
    np.add.at(load, (coflow, flows.target + racks), flows.left)
    own_s = np.zeros(len(numbers))
    np.maximum.at(own_s, coflow, flows.left / (flows.weight * task_bytes_per_s))
    bottleneck = np.maximum((load / np.maximum(links, MIN_SHARE)).max(axis=1), own_s)
    left = links.astype(np.float64).copy()
    speed = np.zeros(len(numbers))
    for number in np.argsort(bottleneck, kind="stable").tolist():
        used = load[number] > 0
        if (left[used] <= MIN_SHARE * links[used]).any():
            continue
        time_s = max(float((load[number][used] / left[used]).max()), float(own_s[number]))
        speed[number] = 1.0 / time_s
        left = np.maximum(left - load[number] / time_s, 0.0)
    rates = flows.left * speed[coflow]
    if (left > 0).any():
        more = max_min_rates(flows, left, task_bytes_per_s)
        rates = rates + np.minimum(more, np.maximum(flows.weight * task_bytes_per_s - rates, 0.0))
    return np.asarray(rates)
