"""Provisioning: how many racks each job gets, by the path of the source and by a price of rack time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np

from kwiken.base.arrays import Floats, Ints
from kwiken.batch.racks.problem import RackProblem
from kwiken.batch.racks.schedule import Objective, source_order, starts_of

GRID: Final = 24  # points of the path that are looked at in each round
ROUNDS: Final = 5  # of the search along the path, for the mean
MAX_PATH_LOOKS: Final = 4000  # evaluations of makespans, of which the bound leaves few
PRICES: Final = 24  # prices of rack time that are tried in each of two rounds


@dataclass(frozen=True, eq=False)
class RackAllocation:
    """Numbers of racks and the order in which the jobs take racks.

    Attributes:
        widths: (J,) number of racks of each job.
        order: (J,) jobs by priority, highest first.
        value_s: objective of the schedule, seconds.
    """

    widths: Ints
    order: Ints
    value_s: float


def path_of(response_s: Floats) -> Ints:
    """Jobs in the order in which the source raises their numbers of racks by one.

    Each step raises the job with the longest time at its present number of racks. A job whose time rises with
    the next rack stays longest and is raised again. A step of a job is therefore taken at the smallest time
    that the job had so far, and sorting all steps by that time gives the path at once.

    Args:
        response_s: (J, R) completion times by which jobs are compared, seconds.

    Returns:
        (J (R - 1),) job of each step.
    """
    jobs, racks = response_s.shape
    if racks == 1:
        return np.zeros(0, dtype=np.int64)
    keys = np.minimum.accumulate(response_s[:, :-1], axis=1).ravel()
    job = np.repeat(np.arange(jobs), racks - 1)
    return job[np.lexsort((np.arange(keys.size), job, -keys))]


def widths_at(path: Ints, step: int, jobs: int) -> Ints:
    """(J,) numbers of racks after a number of steps of the path."""
    return 1 + np.bincount(path[:step], minlength=jobs)


class Evaluator:
    """Objective of numbers of racks and an order, with the arrays of a problem turned into lists once."""

    def __init__(self, problem: RackProblem, kind: Objective) -> None:
        self.problem = problem
        self.kind: Objective = kind
        self.arrivals = problem.arrivals_s.tolist()
        self.looks = 0

    def value(self, widths: Ints, order: Ints) -> float:
        """Makespan or mean time of the schedule, seconds."""
        self.looks += 1
        lengths = self.problem.lengths(widths)
        starts = np.array(
            starts_of(order.tolist(), widths.tolist(), lengths.tolist(), self.arrivals, self.problem.racks)
        )
        ends = starts + lengths
        return float(ends.max() if self.kind == "makespan" else (ends - self.problem.arrivals_s).mean())

    def allocation(self, widths: Ints, order: Ints | None = None) -> RackAllocation:
        """RackAllocation with its objective; the source's order unless one is given."""
        order = source_order(self.problem, widths) if order is None else order
        return RackAllocation(widths, order, self.value(widths, order))


def provision_on_path(evaluator: Evaluator) -> RackAllocation:
    """Best step of the source's path, without evaluating every one.

    There are two cases:

    1. Makespan: no schedule ends before its longest job, nor before all work is spread over all racks. Steps
       are evaluated by rising bound until the bound reaches the best makespan, so the result is the source's.
    2. Mean: a grid over the path, refined around its best step.
    """
    problem = evaluator.problem
    path = path_of(problem.response_s)
    if evaluator.kind == "makespan":
        return _by_bound(evaluator, path)
    best = evaluator.allocation(widths_at(path, 0, problem.jobs))
    low, high, best_step = 0, path.size, 0
    for _ in range(ROUNDS):
        steps = np.unique(np.linspace(low, high, GRID).astype(np.int64))
        for step in steps.tolist():
            found = evaluator.allocation(widths_at(path, step, problem.jobs))
            if found.value_s < best.value_s:
                best, best_step = found, step
        gap = max(1, (high - low) // (GRID - 1))
        low, high = max(0, best_step - gap), min(path.size, best_step + gap)
        if gap == 1:
            break
    return best


def _by_bound(evaluator: Evaluator, path: Ints) -> RackAllocation:
    problem = evaluator.problem
    bounds = _step_bounds(problem, path)
    best: RackAllocation | None = None
    for looks, step in enumerate(np.argsort(bounds, kind="stable").tolist()):
        if best is not None and (bounds[step] >= best.value_s or looks >= MAX_PATH_LOOKS):
            break
        found = evaluator.allocation(widths_at(path, step, problem.jobs))
        if best is None or found.value_s < best.value_s:
            best = found
    assert best is not None
    return best


def _step_bounds(problem: RackProblem, path: Ints) -> Floats:
    """Smallest possible makespan after each step of the path: the longest job, and all work shared."""
    jobs, racks = problem.jobs, problem.racks
    times, work = problem.response_s, problem.work_s
    earliest = float(problem.arrivals_s.min())
    by_job = np.argsort(path, kind="stable")
    place = np.tile(np.arange(racks - 1), jobs)
    level = np.empty(path.size, dtype=np.int64)
    level[by_job] = place  # number of racks minus one before each step
    after = level + 1
    area = work[:, 0].sum() + np.concatenate([[0.0], np.cumsum(work[path, after] - work[path, level])])
    # The longest job after step k is the one that step k + 1 raises; after the last, the longest at R racks.
    longest = np.append(times[path, level], times[:, -1].max())
    found: Floats = np.maximum(np.maximum(longest, times[:, -1].max()), earliest + area / racks)
    return found


def widths_at_price(problem: RackProblem, price: float) -> Ints:
    """(J,) number of racks of each job that minimises its time plus a price for the rack time it takes.

    Args:
        price: seconds of completion time that one rack-second is worth, 0 or more.
    """
    cheapest: Ints = np.argmin(problem.response_s + price * problem.work_s, axis=1)
    return 1 + cheapest


def provision_by_price(evaluator: Evaluator) -> RackAllocation:
    """Best allocation over prices of rack time, in the source's order and with the least work first.

    The path of the source makes long jobs equally long. One price for all lets each job have the number of
    racks that is best for it at that load.
    """
    problem = evaluator.problem
    prices = np.concatenate([[0.0], np.geomspace(1e-4, 10.0, PRICES)])
    best: RackAllocation | None = None
    best_price = 0.0
    for prices_of_round in (prices, None):
        tried = prices_of_round
        if tried is None:
            tried = np.geomspace(max(best_price, 1e-4) / 2, max(best_price, 1e-4) * 2, PRICES // 2)
        for price in tried.tolist():
            widths = widths_at_price(problem, price)
            for order in _orders(problem, widths, evaluator.kind):
                found = evaluator.allocation(widths, order)
                if best is None or found.value_s < best.value_s:
                    best, best_price = found, price
    assert best is not None
    return best


def _orders(problem: RackProblem, widths: Ints, kind: Objective) -> Iterator[Ints]:
    yield source_order(problem, widths)
    if kind == "mean":
        yield least_work_first(problem, widths)
    else:
        yield np.lexsort((-problem.lengths(widths) * widths, problem.arrivals_s))


def least_work_first(problem: RackProblem, widths: Ints) -> Ints:
    """Order in which jobs start when racks that get free go to the waiting job with the least rack time.

    A job that does not fit on the free racks lets others pass, `MAX_PASSED` of them at a look.

    Args:
        widths: (J,) number of racks of each job.

    Returns:
        (J,) jobs by start.
    """
    lengths = problem.lengths(widths)
    work = (lengths * widths).tolist()
    length, width, arrivals = lengths.tolist(), widths.tolist(), problem.arrivals_s.tolist()
    coming = np.argsort(problem.arrivals_s, kind="stable").tolist()
    waiting: list[tuple[float, int]] = []
    running: list[tuple[float, int]] = []
    free, now, place = problem.racks, 0.0, 0
    started: list[int] = []
    while len(started) < len(width):
        while place < len(coming) and arrivals[coming[place]] <= now:
            heappush(waiting, (work[coming[place]], coming[place]))
            place += 1
        passed: list[tuple[float, int]] = []
        while waiting and free and len(passed) < MAX_PASSED:
            entry = heappop(waiting)
            job = entry[1]
            if width[job] > free:
                passed.append(entry)
                continue
            free -= width[job]
            started.append(job)
            heappush(running, (now + length[job], width[job]))
        for entry in passed:
            heappush(waiting, entry)
        next_s = [running[0][0]] if running else []
        next_s += [arrivals[coming[place]]] if place < len(coming) else []
        if not next_s:
            break
        now = min(next_s)
        while running and running[0][0] <= now:
            free += heappop(running)[1]
    return np.array(started, dtype=np.int64)


MAX_PASSED: Final = 4
