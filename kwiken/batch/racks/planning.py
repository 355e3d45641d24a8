"""The whole plan: provisioning by the source's path and by price, exchanges, bound and gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.batch.racks.bounds import bound_s
from kwiken.batch.racks.exchanges import exchange
from kwiken.batch.racks.problem import RackProblem, penalised
from kwiken.batch.racks.provisioning import Evaluator, RackAllocation, provision_by_price, provision_on_path
from kwiken.batch.racks.schedule import Objective, RackSchedule, prioritise

EXCHANGES: Final = 4000  # tries after provisioning; about 0.2 s for 500 jobs


@dataclass(frozen=True, eq=False)
class PlannedRacks:
    """A plan, and how far it can be from the best.

    Attributes:
        schedule: racks, order and start of each job of the problem.
        objective_s: makespan or mean time of the plan, without the penalty of data, seconds.
        heuristic_s: the same by the source's path of provisioning alone, seconds.
        bound_s: value that no plan of whole racks goes below, seconds.
        looks: number of schedules that provisioning evaluated.
    """

    problem: RackProblem
    schedule: RackSchedule
    objective_s: float
    heuristic_s: float
    bound_s: float
    looks: int

    @property
    def gap(self) -> float:
        """Objective over its bound, less one."""
        return self.objective_s / self.bound_s - 1.0


def plan_racks(
    problem: RackProblem,
    kind: Objective,
    *,
    alpha_s_per_byte: float = 0.0,
    exchanges: int = EXCHANGES,
    seed: int = 0,
    published: bool = False,
) -> PlannedRacks:
    """Plan jobs on racks.

    The source's path and one price of rack time for all jobs are searched; the better of the two is improved
    by exchanges. Numbers of racks are chosen with the penalty of data, and reported without.

    Args:
        kind: makespan or mean time from arrival to end.
        alpha_s_per_byte: weight of the balance of data over racks, seconds per byte; 0 for none.
        exchanges: number of exchanges to try after provisioning, 0 or more.
        published: whether the source's heuristic alone is followed, without prices and exchanges.
    """
    problem = problem.sorted_by_name()
    chosen = problem
    if alpha_s_per_byte:
        times = penalised(problem.response_s, problem.input_bytes, alpha_s_per_byte)
        chosen = RackProblem(problem.names, problem.arrivals_s, problem.input_bytes, times)
    evaluator = Evaluator(chosen, kind)
    source = provision_on_path(evaluator)
    best: RackAllocation = source
    if not published:
        best = min(source, provision_by_price(evaluator), key=lambda found: found.value_s)
        best = exchange(chosen, kind, best, tries=exchanges, chance=np.random.default_rng(seed))
    schedule = prioritise(problem, best.widths, best.order)
    heuristic = prioritise(problem, source.widths, source.order)
    return PlannedRacks(
        problem=problem,
        schedule=schedule,
        objective_s=schedule.objective(problem.arrivals_s, kind),
        heuristic_s=heuristic.objective(problem.arrivals_s, kind),
        bound_s=bound_s(problem, kind),
        looks=evaluator.looks,
    )
