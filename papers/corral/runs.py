"""Runs of generated jobs under each scheduler, and rows of levels and orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from kwiken.batch.rack_simulation.flows import max_min_rates, smallest_bottleneck_rates
from kwiken.batch.rack_simulation.schedulers import JobScheduler, Planned, YarnLike
from kwiken.batch.rack_simulation.simulation import RacksOutcome, simulate_racks
from kwiken.batch.racks.document import rack_plan
from kwiken.batch.racks.planning import PlannedRacks, plan_racks
from kwiken.batch.racks.problem import problem_of
from kwiken.batch.racks.response import RackHardware, RackJob, rack_response_s
from kwiken.batch.racks.schedule import Objective
from papers.corral.shuffle_watcher import ShuffleWatcher
from papers.figures.rows import FigureRow, median_row, order_row

OWN: Final = "own plan"  # with prices and exchanges
SCHEDULERS: Final = ("Yarn-CS", "Corral", "LocalShuffle", "ShuffleWatcher", OWN)
FIRST_SEED: Final = 100  # the first seeds were seen while a mistake was in the runs
LEAST_GAIN: Final = 0.01  # relative; less is a tie, and a tie is no order


def planned(
    jobs: Sequence[RackJob], racks: int, rack: RackHardware, kind: Objective, *, published: bool = True
) -> PlannedRacks:
    """Plan of jobs with the source's penalty for data.

    Args:
        published: whether by the source's heuristic; else with this project's prices and exchanges.
    """
    rows = [(job.name, job.arrival_s, job.input_bytes, rack_response_s(job, racks, rack)) for job in jobs]
    return plan_racks(
        problem_of(rows), kind, alpha_s_per_byte=1.0 / rack.uplink_bytes_per_s, published=published
    )


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
    return first < second * (1 - LEAST_GAIN)


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
