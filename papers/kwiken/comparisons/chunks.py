"""Number of SumVar's chunks: section 5.3.1."""

from __future__ import annotations

import numpy as np

from kwiken.tail.apportion.sum_of_variances import sumvar
from papers.figures.rows import Findings, Part, gain, percent, row
from papers.kwiken.trial.dag_trial import DagTrial
from papers.worlds.populations.services import POPULATIONS, population

CHUNK_REQUESTS = 10_000  # of a DAG in each period: the source's least
GAMMAS = (1.0, 2.0, 3.0, 4.0)  # chunks per stage
GAMMA_BUDGET = 0.05
GAMMA_PARTS = 3  # jobs among which the DAGs are divided


def cuts_by_gamma(seed: int, part_index: int) -> list[list[float]]:
    """By DAG of a part: p99 cut at 5% with each number of chunks."""
    found = []
    for place, dag in enumerate(population(POPULATIONS["C"], np.random.default_rng(seed))):
        if place % GAMMA_PARTS != part_index:
            continue
        trial = DagTrial.of(dag, CHUNK_REQUESTS, np.random.default_rng([seed, 52, place]))
        p99 = float(np.percentile(trial.latency_ms(), 99))
        chosen = [sumvar(trial.curves, trial.costs, GAMMA_BUDGET, gamma=gamma) for gamma in GAMMAS]
        found.append([gain(p99, float(np.percentile(trial.simulate(each)[0], 99))) for each in chosen])
    return found


def conclude_gammas(results: list[list[list[float]]]) -> Findings:
    """Rows with the mean cut by the number of chunks."""
    cuts = np.mean([dag for part in results for dag in part], axis=0)
    return Findings(
        tuple(
            row(
                "Section 5.3.1",
                f"mean p99 cut at 5%, {gamma:g} chunks for each stage, %",
                percent(float(cut)),
                source="no effect from 2 to 4",
                note="population C, one seed",
            )
            for gamma, cut in zip(GAMMAS, cuts, strict=True)
        )
    )


def chunks_part(seed: int) -> Part:
    """Number of chunks over population C."""
    return Part(
        "chunks",
        tuple((cuts_by_gamma, (seed, i)) for i in range(GAMMA_PARTS)),
        conclude_gammas,
        ("Section 5.3.1",),
    )
