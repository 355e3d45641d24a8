"""SumVar against random search and against descent on p99 itself (section 5.4.2)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from kwiken.tail.apportion.sum_of_variances import Allocation, sumvar
from papers.figures.rows import FigureRow, Findings, Part, gain, percent, row
from papers.kwiken.comparisons.random_allocation import of_split, p99_of, random_allocation
from papers.kwiken.trial.dag_trial import DagTrial
from papers.worlds.populations.services import POPULATIONS, population

SEARCH_DAGS, SEARCH_TRIES, SEARCH_REQUESTS = 9, 10_000, 4000
SEARCH_BUDGETS = (0.01, 0.03, 0.05, 0.1)
NEAR_RATIO = 0.94  # ratio to random search's cut from which a case counts as near
MOVES = (0.5, 0.25, 0.125, 0.0625, 0.03125)  # shares of the budget that descent moves between two stages


class Compared(NamedTuple):
    """One DAG at one budget: p99 cuts on the judged requests, as shares, and the work of the searches.

    Attributes:
        sumvar: cut by SumVar, which simulates nothing.
        random: cut by the best random allocation.
        descent: cut by descent on p99.
        simulations: number of allocations that descent simulates.
    """

    sumvar: float
    random: float
    descent: float
    simulations: int


def compare_searches(place: int, seed: int) -> list[Compared]:
    """For one of nine smaller DAGs and each budget: p99 cuts by three ways to choose an allocation.

    All choose by the training requests, and are judged on the test requests.
    """
    rng = np.random.default_rng([seed, 53, place])
    stages = population(POPULATIONS["C"], rng, dags=45)[8 + place]  # sizes from about 6 to 12 stages
    trial = DagTrial.of(stages, SEARCH_REQUESTS, rng)
    p99 = float(np.percentile(trial.latency_ms(), 99))
    found = []
    for budget in SEARCH_BUDGETS:
        descended, simulations = descend(trial, budget)
        found.append(
            Compared(
                sumvar=gain(p99, p99_of(trial, sumvar(trial.curves, trial.costs, budget))),
                random=gain(p99, p99_of(trial, _best_random(trial, budget, rng))),
                descent=gain(p99, p99_of(trial, descended)),
                simulations=simulations,
            )
        )
    return found


def _best_random(trial: DagTrial, budget: float, rng: np.random.Generator) -> Allocation:
    tried = (random_allocation(trial, budget, rng) for _ in range(SEARCH_TRIES))
    return min(tried, key=lambda allocation: p99_of(trial, allocation, on_train=True))


def descend(trial: DagTrial, budget: float) -> tuple[Allocation, int]:
    """Allocation by descent on the p99 of the training requests, and the number of allocations simulated.

    From an even split of the budget, a share of it moves from one stage to another as long as some move
    lowers p99; the best move is taken each time. The shares begin large, since small ones do not change p99
    at all where time-outs lie beyond it.
    """
    stages = range(len(trial.stages))
    split = [1 / len(stages)] * len(stages)
    best = p99_of(trial, of_split(trial, budget, split), on_train=True)
    simulations = 1
    for share in MOVES:
        while True:
            pairs = [pair for pair in itertools.permutations(stages, 2) if split[pair[0]] > 0]
            moved = [_moved(split, pair, share) for pair in pairs]
            p99s = [p99_of(trial, of_split(trial, budget, each), on_train=True) for each in moved]
            simulations += len(p99s)
            if not p99s or min(p99s) >= best:
                break
            best = min(p99s)
            split = moved[p99s.index(best)]
    return of_split(trial, budget, split), simulations


def _moved(split: list[float], pair: tuple[int, int], share: float) -> list[float]:
    giver, taker = pair
    amount = min(share, split[giver])
    moved = list(split)
    moved[giver] -= amount
    moved[taker] += amount
    return moved


def conclude_search(results: list[list[Compared]]) -> Findings:
    """Rows comparing SumVar with random search and descent."""
    cases = [case for result in results for case in result]
    note = f"{len(cases)} cases; best of {SEARCH_TRIES} by training requests, both judged on test requests"
    ahead = np.mean([case.sumvar - case.random for case in cases])
    near = np.mean([case.sumvar >= NEAR_RATIO * case.random for case in cases])
    rows = [
        _row("p99 cut, SumVar less random search, points", percent(float(ahead)), "2", note),
        _row(
            "cases in which SumVar has 94% or more of random search's cut, %",
            percent(float(near)),
            "95",
            note,
        ),
        _row(
            "allocations that random search simulates for each that SumVar does",
            SEARCH_TRIES,
            "10,000 times as long",
            "SumVar reads curves and simulates none; counted as one. Times: python -m benchmarks curve plan",
        ),
        *_descent_rows(cases),
    ]
    return Findings(tuple(rows))


def _descent_rows(cases: list[Compared]) -> list[FigureRow]:
    note = f"{len(cases)} cases; moves of {MOVES[0]:.0%} to {MOVES[-1]:.0%} of the budget between two stages"
    ahead = np.mean([case.sumvar - case.descent for case in cases])
    work = np.median([case.simulations / SEARCH_TRIES for case in cases])
    return [
        _row("p99 cut, SumVar less descent on p99, points", percent(float(ahead)), "descent no better", note),
        _row(
            "allocations that descent simulates over those of random search, median",
            round(float(work), 3),
            "equally slow",
            note,
        ),
    ]


def _row(metric: str, ours: float, source: str, note: str) -> FigureRow:
    return row("Section 5.4.2", metric, ours, source=source, note=note)


def search_part(seed: int) -> Part:
    """SumVar beside random search and descent on nine smaller DAGs."""
    jobs = tuple((compare_searches, (place, seed)) for place in range(SEARCH_DAGS))
    return Part("random search", jobs, conclude_search, ("Section 5.4.2",))
