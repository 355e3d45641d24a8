"""The whole plan: provisioning by the source's path and by price, then exchanges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from kwiken.batch.racks.exchanges import exchange
from kwiken.batch.racks.problem import RackProblem
from kwiken.batch.racks.provisioning import Evaluator, provision_by_price, provision_on_path
from kwiken.batch.racks.schedule import Objective, RackSchedule, prioritise

EXCHANGES: Final = 4000  # tries after provisioning; about 0.2 s for 500 jobs


@dataclass(frozen=True, eq=False)
class PlannedRacks:
    """A plan of the jobs of a problem.

    Attributes:
        schedule: racks, order and start of each job of the problem.
        objective_s: makespan or mean time of the plan, seconds.
        looks: number of schedules that provisioning evaluated.
    """

    problem: RackProblem
    schedule: RackSchedule
    objective_s: float
    looks: int


def plan_racks(
    problem: RackProblem,
    kind: Objective,
    *,
    exchanges: int = EXCHANGES,
    seed: int = 0,
) -> PlannedRacks:
    """Plan jobs on racks.

    The source's path and one price of rack time for all jobs are searched; the better of the two is improved
    by exchanges.

    Args:
        kind: makespan or mean time from arrival to end.
        exchanges: number of exchanges to try after provisioning, 0 or more.
    """
    problem = problem.sorted_by_name()
    evaluator = Evaluator(problem, kind)
    first = min(provision_on_path(evaluator), provision_by_price(evaluator), key=lambda found: found.value_s)
    best = exchange(problem, kind, first, tries=exchanges, chance=np.random.default_rng(seed))
    schedule = prioritise(problem, best.widths, best.order)
    return PlannedRacks(problem, schedule, schedule.objective(problem.arrivals_s, kind), evaluator.looks)
