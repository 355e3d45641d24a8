"""The source's planner as published: its heuristic, its penalty for data, and the bounds of any plan."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats
from kwiken.batch.racks.planning import PlannedRacks
from kwiken.batch.racks.problem import RackProblem
from kwiken.batch.racks.provisioning import Evaluator, RackAllocation, provision_on_path
from kwiken.batch.racks.schedule import Objective, RackSchedule, prioritise

HALVINGS: Final = 60  # of the interval that holds the makespan's bound


def batch_bound_s(problem: RackProblem) -> float:
    """Bound of the makespan of jobs that all may start at once: the optimum of the source's LP.

    The LP shares each job over numbers of racks: no job's mean time exceeds the makespan, and all work fits
    on the racks. Given a makespan, each job's least work stands on the lower hull of its points of time and
    work, so the smallest makespan at which all work fits is found by halving an interval. The value is that
    of the LP, without its J times R variables.
    """
    hulls = [_hull(times, work) for times, work in zip(*_useful_points(problem), strict=True)]
    low = float(problem.fastest_s.max())
    fixed = sum(float(work[0]) for _, work in hulls if len(work) == 1)
    several = [hull for hull in hulls if len(hull[1]) > 1]

    def work_within(makespan: float) -> float:
        # Times of a hull fall and its work rises; np.interp wants rising times.
        return fixed + sum(
            float(np.interp(makespan, times[::-1], work[::-1], right=work[0])) for times, work in several
        )

    if work_within(low) <= low * problem.racks:
        return low
    high = max(float(problem.response_s.max()), float(problem.work_s[:, 0].sum()) / problem.racks, low)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if work_within(middle) <= middle * problem.racks:
            high = middle
        else:
            low = middle
    return low


def _useful_points(problem: RackProblem) -> tuple[list[Floats], list[Floats]]:
    """By job, times and work of the numbers of racks that are quicker than all smaller ones."""
    masks = problem.useful
    times = [row[mask] for row, mask in zip(problem.response_s, masks, strict=True)]
    return times, [row[mask] for row, mask in zip(problem.work_s, masks, strict=True)]


def _hull(times: Floats, work: Floats) -> tuple[Floats, Floats]:
    """Lower hull of points of time and work: times fall, work rises, and each second saved costs more."""
    kept: list[int] = []
    for point in range(len(times)):
        # A quicker point with no more work makes the slower one useless.
        while kept and work[point] <= work[kept[-1]]:
            kept.pop()
        while len(kept) > 1 and (work[kept[-1]] - work[kept[-2]]) * (times[kept[-1]] - times[point]) >= (
            work[point] - work[kept[-1]]
        ) * (times[kept[-2]] - times[kept[-1]]):
            kept.pop()
        kept.append(point)
    return times[kept], work[kept]


def makespan_bound_s(problem: RackProblem) -> float:
    """Bound of the makespan with arrivals: the LP of the batch from the first arrival, and each job alone."""
    alone = float((problem.arrivals_s + problem.fastest_s).max())
    return max(alone, float(problem.arrivals_s.min()) + batch_bound_s(problem))


def online_bound_as_printed_s(problem: RackProblem) -> float:
    """Bound of the mean time by the LP as the source prints it.

    Its delays are free, so its optimum has none, and the row of capacity then follows from the others: the
    optimum is the mean of the jobs' shortest times.
    """
    return float(problem.fastest_s.mean())


def mean_bound_s(problem: RackProblem) -> float:
    """Bound of the mean time: the shortest times, and one machine that serves the least remaining work first.

    The machine stands for all racks at once, may interrupt jobs, and gets each job's smallest work over all
    numbers of racks; no schedule of racks does better.
    """
    return max(online_bound_as_printed_s(problem), _least_remaining_work_first(problem))


def _least_remaining_work_first(problem: RackProblem) -> float:
    work = (problem.work_s.min(axis=1) / problem.racks).tolist()
    arrivals = problem.arrivals_s.tolist()
    coming = np.argsort(problem.arrivals_s, kind="stable").tolist()
    left: list[float] = []
    now, place, total = 0.0, 0, 0.0
    while left or place < len(coming):
        if not left:
            now = max(now, arrivals[coming[place]])
        while place < len(coming) and arrivals[coming[place]] <= now:
            heappush(left, work[coming[place]])
            place += 1
        amount = heappop(left)
        next_s = arrivals[coming[place]] if place < len(coming) else np.inf
        if now + amount <= next_s:
            now += amount
            total += now
        else:
            heappush(left, amount - (next_s - now))
            now = next_s
    return float((total - sum(arrivals)) / len(work))


def bound_s(problem: RackProblem, kind: Objective) -> float:
    """Bound of an objective, seconds."""
    return makespan_bound_s(problem) if kind == "makespan" else mean_bound_s(problem)


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
