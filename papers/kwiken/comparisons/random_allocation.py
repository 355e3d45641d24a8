"""Random allocations of a budget, and their p99 in a trial."""

from __future__ import annotations

import numpy as np

from kwiken.tail.apportion.sum_of_variances import Allocation
from papers.kwiken.trial.dag_trial import DagTrial

CONCENTRATION = 0.5  # of the Dirichlet distribution: most of the budget goes to a few stages


def random_allocation(trial: DagTrial, budget: float, rng: np.random.Generator) -> Allocation:
    """Random split of a budget; a share that a stage cannot use is left unspent."""
    split = rng.dirichlet(np.full(len(trial.stages), CONCENTRATION))
    return of_split(trial, budget, split.tolist())


def of_split(trial: DagTrial, budget: float, split: list[float]) -> Allocation:
    """Allocation that gives each stage its share of a budget.

    Args:
        split: share of the budget of each stage, in the order of the stages; their sum is 1 or less.
    """
    fractions = {
        stage.name: min(1.0, part * budget / trial.costs[stage.name])
        for stage, part in zip(trial.stages, split, strict=True)
    }
    return Allocation(fractions, budget, {}, {}, ())


def p99_of(trial: DagTrial, allocation: Allocation, *, on_train: bool = False) -> float:
    """p99 of the trial's requests under an allocation, milliseconds."""
    return float(np.percentile(trial.simulate(allocation, on_train=on_train)[0], 99))
