"""Statistical selection of servers: Figure 3.3 of Paragon."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

import numpy as np

from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import request_for
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.sampling.sample_size import draws_for
from papers.figures.rows import Part
from papers.figures.tables import StatedRow, exact, once, pooled, study
from papers.worlds.fleet.catalogue import SCENARIOS
from papers.worlds.schedulers.statistical import colocation_quality

CANDIDATES: Final = (16, 64, 128)
BEST_TENTH: Final = 0.9  # quantile of quality
GUARANTEES: Final = ((0.9, 1e-6, "128"), (0.9, 1e-3, "64"), (0.95, 1e-3, ""), (0.6, 1e-2, ""))
RESIDENTS: Final = 1500  # applications that are on the 1,000 servers when candidates are drawn
NEWCOMERS: Final = 50
WORLD: Final = "cloud-low"


def real_misses(seed: int) -> dict[int, float]:
    """By number of candidates: share of newcomers whose best one is not among the best tenth of servers.

    The quality is that of the scheduler, on 1,000 servers on which applications were placed at random.
    """
    rng = np.random.default_rng([seed, 33])
    scenario = SCENARIOS[WORLD].draw(seed).scenario
    ledger = NodeLedger(scenario.cluster)
    requests = [
        request_for(
            job.workload,
            job.phases[0].truth.of_size(job.phases[0].truth.sizes[0]),
            scenario.cluster,
            Caution(confidence=0.5, later_loss=0.0),
        )
        for job in scenario.jobs[: RESIDENTS + NEWCOMERS]
    ]
    for request in requests[:RESIDENTS]:
        room = (ledger.free_cores >= request.cores[0]) & (ledger.free_memory_gb >= request.memory_gb[0])
        if room.any():
            Sizing(request, ledger).add(int(rng.choice(np.flatnonzero(room))), 0)
    every = np.arange(len(scenario.cluster.nodes))
    missed = dict.fromkeys(CANDIDATES, 0.0)
    for request in requests[RESIDENTS:]:
        quality = colocation_quality(Sizing(request, ledger), every)
        least = float(np.quantile(quality, BEST_TENTH))
        for candidates in CANDIDATES:
            drawn = quality[rng.integers(len(every), size=candidates)]
            missed[candidates] += float(drawn.max() < least) / NEWCOMERS
    return missed


def guarantees() -> dict[float, dict[float, int]]:
    """Candidates by quality and chance of a failure."""
    found: dict[float, dict[float, int]] = {}
    for quality, failure, _ in GUARANTEES:
        found.setdefault(quality, {})[failure] = draws_for(quality, failure)
    return found


def _misses() -> Iterator[StatedRow]:
    for candidates in CANDIDATES:
        metric = f"no candidate of {candidates} in the best tenth, the scheduler's quality, % of newcomers"
        value, source = partial(_mean_misses, candidates), f"{100 * BEST_TENTH**candidates:.4g}"
        yield pooled("Figure 3.3", metric, value, source, SERVERS)


def _mean_misses(candidates: int, seeds: list[dict[int, float]]) -> float:
    return round(100 * float(np.mean([each[candidates] for each in seeds])), 2)


GUARANTEED: Final = tuple(
    exact(
        "Figure 3.3",
        f"candidates for quality {quality:g} but for one placement in {1 / failure:g}",
        (quality, failure),
        source,
        "rounded up; the source gives round numbers",
    )
    for quality, failure, source in GUARANTEES
)
SERVERS: Final = "1,000 simulated servers with 1,500 applications at random; 50 newcomers for each seed"


def selections(seeds: int) -> tuple[Part, ...]:
    """Parts on selection by candidates.

    Args:
        seeds: number of draws to average over, counted from 0.
    """
    return (
        once("guarantees", guarantees, GUARANTEED),
        study("real candidates", real_misses, seeds, _misses()),
    )
