"""Ablations of the resource selector: why a random tuple is behind the base, and a quicker one behind none.

Both orders had failed on seeds from 100 on. The reasons that are tested, their values and the seeds were
committed before the first run:

- Corral-R before Baseline. The source does not state which tuples are candidates. Here all sizes up to 64
  machines are, whatever the base asks for, so that a random tuple holds far more slots than its base. Were
  this the reason, the order would hold where no tuple has more than one or two times the base's machines.
- Corral-T before Corral-I. At an occupancy of 100% Corral-I rejects almost nothing, so that nothing is left
  to gain. Were this the reason, the order would hold at an occupancy of 200 or 300%.

The points by bandwidth were added after those by occupancy had run on the same seeds, before their own run.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from papers.corral.requests import (
    RequestAdmission,
    RequestSettings,
    admitted,
    drawn_requests,
)
from papers.corral.runs import below, change, level, order
from papers.figures.rows import FigureRow, Findings, Part, over_seeds

FIRST_SELECTOR_SEED: Final = 300
MAX_SEEDS: Final = 4
LARGEST: Final = (1.0, 2.0, float("inf"))  # most machines of a tuple over its base's; the last as elsewhere
MIDDLE: Final = RequestSettings()  # 75% and 500 Mbit/s
POINTS: Final = (
    MIDDLE,
    RequestSettings(occupancy=0.5),
    RequestSettings(occupancy=1.0),
    RequestSettings(bandwidth=300.0),
    RequestSettings(bandwidth=900.0),
)
LOADS: Final = (1.0, 2.0, 3.0)  # occupancies of quicker tuples

Admissions = dict[str, RequestAdmission]


def within_sizes(largest: float, seed: int) -> list[Admissions]:
    """By point, admissions where tuples have at most a multiple of their base's machines.

    Corral-I is of the middle point alone, whose order of three it stands in.
    """
    found = []
    for point in POINTS:
        requests = drawn_requests(dataclasses.replace(point, largest=largest), seed)
        one = {"Baseline": admitted(requests, "base", seed), "Corral-R": admitted(requests, "random", seed)}
        if point is MIDDLE:
            one["Corral-I"] = admitted(requests, "balanced", seed)
        found.append(one)
    return found


def conclude_sizes(results: list[list[list[Admissions]]]) -> Findings:
    """Rows of each greatest size: slots, rejections, goodput, and the orders that failed."""
    rows: list[FigureRow] = []
    by_occupancy = [place for place, point in enumerate(POINTS) if point.bandwidth == MIDDLE.bandwidth]
    by_bandwidth = [place for place, point in enumerate(POINTS) if point.occupancy == MIDDLE.occupancy]
    for largest, seeds in zip(LARGEST, results, strict=True):
        told = f"ablation, {_sizes(largest)}"
        points = [seed[POINTS.index(MIDDLE)] for seed in seeds]
        rows += [
            level(
                "Figure 4.4a",
                f"{told}: slots times time of Corral-R's tuples over their bases' at 75%",
                [one["Corral-R"].slot_time for one in points],
            ),
            level(
                "Figure 4.4a",
                f"{told}: rejected at 75%, Corral-R less Baseline, points",
                [100 * (one["Corral-R"].rejected - one["Baseline"].rejected) for one in points],
                "below 0",
            ),
            level(
                "Figure 4.5a",
                f"{told}: goodput of Corral-R over Baseline at 75%, %",
                [change(one["Corral-R"].goodput, one["Baseline"].goodput) for one in points],
                "39",
            ),
            order(
                "Figure 4.4a",
                f"{told}: Corral-R rejects fewer than Baseline at 50, 75 and 100%",
                [_fewer([seed[place] for place in by_occupancy]) for seed in seeds],
            ),
            order(
                "Figure 4.4b",
                f"{told}: Corral-R rejects fewer than Baseline at 300, 500 and 900 Mbit/s",
                [_fewer([seed[place] for place in by_bandwidth]) for seed in seeds],
            ),
            order(
                "Figure 4.5a",
                f"{told}: Corral-I before Corral-R before Baseline in goodput at 75%",
                [_in_order(one) for one in points],
            ),
        ]
    return Findings(tuple(rows))


def _sizes(largest: float) -> str:
    return "tuples of any size" if largest == LARGEST[-1] else f"tuples of up to {largest:g} times the base's"


def _fewer(points: list[Admissions]) -> bool:
    return all(one["Corral-R"].rejected < one["Baseline"].rejected for one in points)


def _in_order(one: Admissions) -> bool:
    return one["Corral-I"].goodput > one["Corral-R"].goodput > one["Baseline"].goodput


def at_load(occupancy: float, seed: int) -> Admissions:
    """Admissions of balanced and of quicker tuples at an occupancy."""
    requests = drawn_requests(RequestSettings(occupancy=occupancy), seed)
    return {"Corral-I": admitted(requests, "balanced", seed), "Corral-T": admitted(requests, "time", seed)}


def conclude_loads(results: list[list[Admissions]]) -> Findings:
    """Rows of each load: what is left to gain, slots, goodput, and the order."""
    rows: list[FigureRow] = []
    figure = "Figure 4.9"
    for occupancy, seeds in zip(LOADS, results, strict=True):
        told = f"ablation, occupancy {100 * occupancy:g}%"
        rows += [
            level(
                figure, f"{told}: rejected by Corral-I, %", [100 * one["Corral-I"].rejected for one in seeds]
            ),
            level(
                figure,
                f"{told}: slots times time of Corral-T's tuples over their bases'",
                [one["Corral-T"].slot_time for one in seeds],
            ),
            level(
                figure,
                f"{told}: goodput of Corral-T over Corral-I, %",
                [change(one["Corral-T"].goodput, one["Corral-I"].goodput) for one in seeds],
                "above 0 at high",
            ),
            order(
                figure,
                f"{told}: Corral-T before Corral-I in goodput",
                [below(one["Corral-I"].goodput, one["Corral-T"].goodput) for one in seeds],
            ),
        ]
    return Findings(tuple(rows))


def selector_ablations(seeds: int) -> tuple[Part, ...]:
    """Greatest sizes of tuples, and loads, over fresh seeds.

    Args:
        seeds: number of draws; at most 4 are taken, which bounds the time.
    """
    taken = min(seeds, MAX_SEEDS)
    return (
        over_seeds(
            "sizes of tuples",
            within_sizes,
            taken,
            conclude_sizes,
            [(largest,) for largest in LARGEST],
            figures=("Figure 4.4a", "Figure 4.4b", "Figure 4.5a"),
            first_seed=FIRST_SELECTOR_SEED,
        ),
        over_seeds(
            "loads of quicker tuples",
            at_load,
            taken,
            conclude_loads,
            [(occupancy,) for occupancy in LOADS],
            figures=("Figure 4.9",),
            first_seed=FIRST_SELECTOR_SEED,
        ),
    )
