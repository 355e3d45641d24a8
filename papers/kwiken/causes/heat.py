"""Map of the last responders of a fan-out by machine and time, with planted causes: Figure 5.2.

Three causes are planted: one machine is slow all the time, an upgrade rolls over the machines one after the
other, and for a while all machines are slow. The map is that of `kwiken explain`; what it shows is counted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwiken.base.arrays import Bools, Floats
from kwiken.model.plan.plan import SpanMatch
from kwiken.model.profile.profile import Profile, StageProfile
from kwiken.tail.diagnosis.heat_map import heat_maps
from papers.figures.rows import Findings, Part, Plot, PlotSeries, order_row

HEAT_MACHINES, HEAT_COLUMNS, QUERIES_OF_COLUMN = 40, 60, 1200
SLOW_MACHINE, SLOW_SHARE = 7, 0.3  # share of its calls that are slow, all the time
UPGRADE_FIRST, UPGRADE_STEP = 5, 0.9  # column of the first machine, columns for each next
UPGRADE_SHARE = 0.5  # share of a machine's calls that are slow during its upgrade
SLOW_TIMES = 3.0  # factor of the slow calls of both
CONGESTED, CONGESTED_TIMES = (48, 49, 50), 2.0
HOT = 1.5  # times the stage's median from which a cell counts as slow
MAX_HOT = 0.5  # share of slow cells from which a row or column counts as slow
UPGRADES_SHOWN = 0.9  # of the machines, whose upgrade is to show
UPGRADED_APART = 2  # columns from the planted slope within which a slow cell is of the upgrade


class HeatFound(NamedTuple):
    """Findings of a heat map.

    Attributes:
        machines: machines that are slow most of the time.
        columns: columns in which most machines are slow.
        upgraded: share of the other machines whose planted slow interval shows.
        hot: coordinates of the slow cells: columns, and machines.
    """

    machines: list[int]
    columns: list[int]
    upgraded: float
    hot: tuple[list[int], list[int]]


def find_causes(seed: int) -> HeatFound:
    """Draw queries, build the map, and read the causes from it."""
    heat = heat_maps(last_responders(np.random.default_rng([seed, 52])), columns=HEAT_COLUMNS)[0]
    cells = np.array([[np.nan if value is None else value for value in line] for line in heat.slow_ms])
    hot = cells >= HOT * heat.typical_ms
    columns = np.flatnonzero(hot.mean(axis=0) > MAX_HOT)
    rest = hot.copy()
    rest[:, columns] = False
    machines = np.flatnonzero(hot.mean(axis=1) > MAX_HOT)
    rest[machines] = False
    shown = np.flatnonzero(hot.ravel())
    return HeatFound(
        machines.tolist(),
        columns.tolist(),
        _upgraded(rest, machines.tolist()),
        ((shown % HEAT_COLUMNS).tolist(), (shown // HEAT_COLUMNS).tolist()),
    )


def _upgraded(hot: Bools, slow: list[int]) -> float:
    """Share of the machines with a slow cell near the column of their upgrade."""
    others = [machine for machine in range(HEAT_MACHINES) if machine not in slow]
    near = [
        hot[machine, max(0, at - UPGRADED_APART) : at + UPGRADED_APART + 1].any()
        for machine in others
        for at in [upgrade_column(machine)]
    ]
    return float(np.mean(near))


def upgrade_column(machine: int) -> int:
    """Column in which the planted upgrade reaches a machine."""
    return round(UPGRADE_FIRST + UPGRADE_STEP * machine)


def last_responders(rng: np.random.Generator) -> Profile:
    """Profile of one stage whose calls are the last responders of queries, with the machine of each."""
    queries = HEAT_COLUMNS * QUERIES_OF_COLUMN
    column = np.arange(queries) // QUERIES_OF_COLUMN
    calls = rng.lognormal(np.log(30), 0.25, size=(queries, HEAT_MACHINES))
    slow = rng.random(calls.shape) < _slow_shares()[column]
    calls *= np.where(slow, SLOW_TIMES, 1.0)
    calls[np.isin(column, CONGESTED)] *= CONGESTED_TIMES
    last = calls.argmax(axis=1)
    latency = calls.max(axis=1)
    stage = StageProfile(
        name="look-up",
        after=(),
        match=SpanMatch(service="synthetic", operation="look-up"),
        calls_ms=latency[:, None],
        censored=np.zeros((queries, 1), dtype=np.bool_),
        asked=last[:, None].astype(np.int64),
        replica_names=tuple(f"machine {one}" for one in range(HEAT_MACHINES)),
    )
    return Profile(
        service="synthetic",
        stages=(stage,),
        latency_ms=latency,
        started_s=np.arange(queries, dtype=np.float64),
    )


def _slow_shares() -> Floats:
    """(columns, machines): share of the calls that the slow machine and the upgrade make slow."""
    shares = np.zeros((HEAT_COLUMNS, HEAT_MACHINES))
    shares[:, SLOW_MACHINE] = SLOW_SHARE
    for machine in range(HEAT_MACHINES):
        shares[upgrade_column(machine), machine] = UPGRADE_SHARE
    return shares


def conclude_heat(results: list[HeatFound]) -> Findings:
    """Orders: whether the planted causes are found in each seed, and the map of the first as points."""
    note = f"synthetic fan-out of {HEAT_MACHINES} machines over {HEAT_COLUMNS} intervals; drawn in the source"
    orders = {
        "the slow machine is found, and no other": [one.machines == [SLOW_MACHINE] for one in results],
        "the congested intervals are found, and no others": [
            one.columns == list(CONGESTED) for one in results
        ],
        "the upgrade shows at nine machines in ten": [one.upgraded >= UPGRADES_SHOWN for one in results],
    }
    cells = PlotSeries("p95 of last responders above 1.5 times the median", *results[0].hot, points=True)
    title = "slow cells by machine and time"
    return Findings(
        tuple(order_row("Figure 5.2", words, held, note=note) for words, held in orders.items()),
        (Plot("Figure 5.2", title, "interval", "machine", (cells,)),),
    )


def heat_part(seeds: int) -> Part:
    """Figure 5.2, with causes planted in a drawn fan-out for each seed."""
    jobs = tuple((find_causes, (seed,)) for seed in range(seeds))
    return Part("heat map", jobs, conclude_heat, ("Figure 5.2",))
