"""The source's planner as published: its heuristic, its penalty for data, and the gap to a bound."""

from __future__ import annotations

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.batch.racks.planning import PlannedRacks
from kwiken.batch.racks.problem import RackProblem
from kwiken.batch.racks.provisioning import Evaluator, RackAllocation, provision_on_path
from kwiken.batch.racks.schedule import Objective, RackSchedule, prioritise
from papers.corral.bounds import bound_s


def penalised(response_s: Floats, input_bytes: Floats, alpha_s_per_byte: float) -> Floats:
    """Completion times with the penalty that spreads data: alpha times input over the number of racks.

    Args:
        response_s: (J, R) completion times, seconds.
        input_bytes: (J,) size of each job's input, bytes.
        alpha_s_per_byte: weight of the balance of data, seconds per byte, 0 or more; the inverse of the
            bandwidth between a rack and the core is usual.
    """
    racks = np.arange(1, response_s.shape[1] + 1)
    return response_s + alpha_s_per_byte * input_bytes[:, None] / racks


def plan_as_published(problem: RackProblem, kind: Objective) -> PlannedRacks:
    """Plan by the path of provisioning alone, without prices and exchanges."""
    problem = problem.sorted_by_name()
    evaluator = Evaluator(problem, kind)
    found = provision_on_path(evaluator)
    schedule = prioritise(problem, found.widths, found.order)
    return PlannedRacks(problem, schedule, schedule.objective(problem.arrivals_s, kind), evaluator.looks)


def without_penalty(schedule: RackSchedule, problem: RackProblem, kind: Objective) -> PlannedRacks:
    """Racks and order of a schedule, with the times that jobs take without the penalty for data."""
    true = prioritise(problem, schedule.widths, schedule.order)
    return PlannedRacks(problem, true, true.objective(problem.arrivals_s, kind), 0)


def gap(planned: PlannedRacks, kind: Objective) -> float:
    """Objective of a plan over the bound of all plans of whole racks, less one."""
    return planned.objective_s / bound_s(planned.problem, kind) - 1.0


def provision_literally(problem: RackProblem, kind: Objective) -> RackAllocation:
    """The source's heuristic to the letter: every step of the path is evaluated, and the best is kept."""
    times, racks = problem.response_s, problem.racks
    widths = np.ones(problem.jobs, dtype=np.int64)
    current = times[:, 0].copy()
    best: RackAllocation | None = None
    while True:
        schedule = prioritise(problem, widths)
        value = schedule.objective(problem.arrivals_s, kind)
        if best is None or value < best.value_s:
            best = RackAllocation(widths.copy(), schedule.order, value)
        if not np.isfinite(current.max()):
            return best
        longest = int(np.argmax(current))
        widths[longest] += 1
        full = widths[longest] == racks
        current[longest] = -np.inf if full else times[longest, widths[longest] - 1]
        if (widths == racks).all():
            schedule = prioritise(problem, widths)
            value = schedule.objective(problem.arrivals_s, kind)
            return RackAllocation(widths, schedule.order, value) if value < best.value_s else best
