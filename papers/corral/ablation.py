"""Ablation of the rate of tasks, which the source does not state: orders that fail at the assumed one.

Tasks of 10 MB a second were written down before the first comparison. Where tasks are slow, time is in their
waves and hardly in shuffles, so that few racks cost more than shuffles across the core take. The higher rates
were chosen after orders had failed on seeds from 100 on; the rows here are of fresh seeds.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kwiken.batch.rack_simulation.schedulers import YarnLike
from kwiken.batch.racks.response import RackJob
from kwiken.batch.racks.schedule import Objective
from papers.corral.runs import (
    below,
    change,
    compared,
    figures_of,
    level,
    order,
    planned,
    scheduler_of,
    simulated,
)
from papers.corral.workloads import (
    BLOCK,
    FLOW_GRAIN_S,
    FLOW_JOBS,
    FLOW_RACK,
    FLOW_RACKS,
    FLOW_S,
    ONLINE_BYTES,
    ONLINE_S,
    RACKS,
    TESTBED,
    w1,
    w2,
)
from papers.figures.rows import FigureRow, Findings, Part, over_seeds

RATES_MB_PER_S: Final = (10, 40, 160)  # of a task
FIRST_ABLATION_SEED: Final = 200
BATCH_JOBS: Final = 200
ONLINE_JOBS: Final = 100
MB: Final = 1e6
NAMES: Final = ("Yarn-CS", "Corral")


def at_rate(mb_per_s: int, seed: int) -> dict[str, float]:
    """Times of Corral against Yarn-CS at a rate of tasks, percent, and racks of W2's giants."""
    rate = mb_per_s * MB
    online = w1(ONLINE_JOBS, seed, span_s=ONLINE_S, block=BLOCK * ONLINE_BYTES, rate=rate)
    giants = w2(seed, rate=rate)
    flows = w1(FLOW_JOBS, seed, span_s=FLOW_S, block=BLOCK * ONLINE_BYTES, rate=rate)
    found = planned(giants, RACKS, TESTBED, "makespan")
    widths = dict(zip(found.problem.names, found.schedule.widths.tolist(), strict=True))
    return {
        "W1 batch": _against(w1(BATCH_JOBS, seed, rate=rate), seed, "makespan"),
        "W1 online": _against(online, seed, "mean"),
        "W2 batch": _against(giants, seed, "makespan"),
        "W1 flows": _against_varys(flows, seed),
        "giants": float(np.mean([width for name, width in widths.items() if name.startswith("giant")])),
    }


def _against(jobs: list[RackJob], seed: int, objective: Objective) -> float:
    """Change of the makespan or the mean completion by Corral, percent."""
    found = compared(jobs, seed, objective, racks=RACKS, rack=TESTBED, names=NAMES)
    return change(found["Corral"][objective], found["Yarn-CS"][objective])


def _against_varys(jobs: list[RackJob], seed: int) -> float:
    """Change of the median completion by Corral with plain flows, against Yarn-CS with Varys, percent."""
    corral = scheduler_of("Corral", jobs, FLOW_RACKS, FLOW_RACK, "mean")
    plain = figures_of(simulated(jobs, corral, seed, racks=FLOW_RACKS, rack=FLOW_RACK, grain_s=FLOW_GRAIN_S))
    ordered = simulated(
        jobs, YarnLike(), seed, racks=FLOW_RACKS, rack=FLOW_RACK, varys=True, grain_s=FLOW_GRAIN_S
    )
    return change(plain["median"], figures_of(ordered)["median"])


def conclude_rates(results: list[list[dict[str, float]]]) -> Findings:
    """Rows of each rate: levels, and the orders that fail at the assumed one."""
    rows: list[FigureRow] = []
    lines = (
        ("Figure 4.10", "W1 batch", "W1, makespan against Yarn-CS, %", "-10 to -33"),
        ("Figure 4.12", "W1 online", "W1, mean completion against Yarn-CS, %", "-26 to -36"),
        ("Figure 4.10", "W2 batch", "W2, makespan against Yarn-CS, %", "-10 to -33, least on W2"),
        ("Figure 4.19", "W1 flows", "median of Corral, TCP against Yarn-CS, Varys, %", "-45"),
        ("Section 4.5.3", "giants", "W2, racks of the giants", "3"),
    )
    for mb_per_s, seeds in zip(RATES_MB_PER_S, results, strict=True):
        told = f"ablation, tasks of {mb_per_s} MB/s"
        for figure, key, metric, source in lines:
            values = [one[key] for one in seeds]
            rows.append(level(figure, f"{told}: {metric}", values, source))
            if key != "giants":
                held = [below(100 + value, 100) for value in values]
                rival = "Yarn-CS with Varys" if key == "W1 flows" else "Yarn-CS"
                rows.append(order(figure, f"{told}: Corral before {rival}, {key}", held))
    return Findings(tuple(rows))


def ablation_part(seeds: int) -> Part:
    """Rates of tasks, over fresh seeds."""
    return over_seeds(
        "rates of tasks",
        at_rate,
        seeds,
        conclude_rates,
        [(mb_per_s,) for mb_per_s in RATES_MB_PER_S],
        figures=("Figure 4.10", "Figure 4.12", "Figure 4.19", "Section 4.5.3"),
        first_seed=FIRST_ABLATION_SEED,
    )
