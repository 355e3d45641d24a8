"""Rows of MRCute's tables and figures beside the source's values, and the orders that are to hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np

from kwiken.batch.jobs.mapreduce.formulas import (
    MapReduceJob,
    MapReduceProfile,
    RackNetwork,
    reserved_times,
    shuffle_over_racks,
)
from papers.mrcute.executor import JOBS
from papers.mrcute.other_frameworks import factorisation_s, web_throughput
from papers.mrcute.prediction import SLOTS
from papers.mrcute.trials import (
    SKEWS,
    TUPLES,
    Values,
    shapes,
    sizes,
    skewed,
    slack,
    stage_errors,
    table_3_1,
)
from papers.rows import (
    Findings,
    Part,
    Plot,
    PlotSeries,
    ReproducedRow,
    UnreproducedRow,
    over_seeds,
    row,
)

WORLD: Final = (
    "simulated executor: list scheduling, start-up of tasks, unequal disks, noise, outliers; its constants "
    "and seeds were committed before the first run on these seeds, and no level is tuned"
)
MEAN: Final = {"Sort": 8.9, "WordCount": 8.4, "Gridmix": 11.5, "TF-IDF": 5.6, "LinkGraph": 8.2}
P95: Final = {"Sort": 20.5, "WordCount": 19.7, "Gridmix": 17.8, "TF-IDF": 9.7, "LinkGraph": 12.3}
PROFILING: Final = {"Sort": 100.8, "WordCount": 67.5, "Gridmix": 546, "TF-IDF": 335, "LinkGraph": 554.8}
ANCHORS: Final = (
    *((20, 300, 530.0), (20, 250, 530.0), (20, 125, 690.0)),
    *((10, 300, 1060.0), (10, 100, 1540.0), (30, 300, 355.0)),
)
RACKS: Final = (3.222, 3.333, 2.963, 2.5, 2.133, 1.852, 1.633)
BEYOND_DISK: Final = 0.98  # of the time at the disk's bandwidth, below which more bandwidth pays
PRODUCTION_SKEW: Final = 0.34  # median coefficient of variation in production
CLOCK: Final = (
    "no clock is read here; `python -m benchmarks --only batch` times 100 and 10,000 tuples beside a loop"
)


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction.

    Args:
        seeds: number of runs of each part.
    """
    spread = partial(over_seeds, seeds=seeds)
    return (
        Part("formulas", (), _formulas),
        spread("table 3.1", table_3_1, conclude=_of(_table_3_1)),
        spread("shapes", shapes, conclude=_of(_shapes)),
        spread("stages", stage_errors, conclude=_of(_stages)),
        spread("skew", skewed, conclude=_of(_skew)),
        spread("slack", slack, conclude=_of(_slack)),
        spread("sizes", sizes, conclude=_of(_sizes)),
    )


def _of(conclude: Callable[[Sequence[Values]], Findings]) -> Callable[[list[list[Any]]], Findings]:
    return partial(_single_case, conclude)


def _single_case(conclude: Callable[[Sequence[Values]], Findings], results: list[list[Any]]) -> Findings:
    return conclude(results[0])


def _median(
    figure: str,
    metric: str,
    values: Sequence[float],
    *,
    source: str = "",
    scale: float = 1.0,
    note: str = WORLD,
) -> ReproducedRow:
    found = scale * np.asarray(values)
    low, middle, high = (round(float(np.quantile(found, q)), 3) for q in (0, 0.5, 1))
    return ReproducedRow(
        figure=figure, metric=metric, source=source, ours=middle, note=note, low=low, high=high
    )


def _order(figure: str, metric: str, holds: Sequence[bool], source: str) -> ReproducedRow:
    """Number of seeds in which an order holds."""
    note = f"of {len(holds)} seeds" + ("" if all(holds) else "; the order fails in the others")
    return row(figure, f"seeds in which {metric}", float(sum(holds)), source=source, note=note)


def _table_3_1(runs: Sequence[Values]) -> Findings:
    figure = "Table 3.1"
    rows = []
    for job in JOBS:
        for kind, values in (("mean", MEAN), ("p95", P95)):
            seen = [run[f"{job.name} {kind}"] for run in runs]
            metric = f"{job.name}: {kind} prediction error, %"
            rows.append(_median(figure, metric, seen, source=f"{values[job.name]:g}", scale=100))
    for job in JOBS:
        metric = f"{job.name}: size of the sample, GB"
        rows.append(row(figure, metric, job.sample_gb, source=f"{job.sample_gb:g}", note="an input"))
    for job in JOBS:
        seen = [run[f"{job.name} profiling"] for run in runs]
        metric = f"{job.name}: time of profiling, s"
        rows.append(_median(figure, metric, seen, source=f"{PROFILING[job.name]:g}"))
    for kind, source in (("mean", "11.5"), ("p95", "20.5")):
        worst = [max(run[f"{job.name} {kind}"] for job in JOBS) for run in runs]
        rows.append(_median(figure, f"largest {kind} error of the five, %", worst, source=source, scale=100))
    for letter, name in (("a", "Sort"), ("b", "WordCount")):
        seen = [run[f"{name} largest"] for run in runs]
        metric = f"{name}: largest error over machines and bandwidth, %"
        rows.append(_median(f"Figure 3.2{letter}", metric, seen, scale=100))
    return Findings(tuple(rows))


def _shapes(runs: Sequence[Values]) -> Findings:
    rows = []
    for letter, name in (("a", "Sort"), ("b", "WordCount")):
        seen = [run[f"{name} slope"] for run in runs]
        metric = f"{name}: log-log slope of time over machines"
        rows.append(_median(f"Figure 3.2{letter}", metric, seen, source="-1"))
    for n in (10, 20):
        for bandwidth in (300, 500, 1000):
            metric = f"Sort on {n} machines: time at {bandwidth} over time at 250 Mbps"
            rows.append(
                _median("Figure 2.8a", metric, [run[f"Sort {n} {bandwidth}"] for run in runs], source="1")
            )
    for name in ("Sort", "LinkGraph", "WordCount"):
        metric = f"{name}: time at 75 over time at 250 Mbps"
        source = "Sort falls more than WordCount" if name != "LinkGraph" else ""
        rows.append(_median("Figure 2.8", metric, [run[f"{name} 75"] for run in runs], source=source))
    for name, source in zip(TUPLES, ("5", "5", "3", "3"), strict=True):
        metric = f"{name}: largest deviation of the four tuples from their mean, %"
        note = f"{WORLD}; no law of machines and bandwidth gives the source's tuples one time"
        rows.append(
            _median("Table 2.2", metric, [run[name] for run in runs], source=source, scale=100, note=note)
        )
    rows += [
        _order(
            "Figure 2.8",
            "Sort gains more from bandwidth than WordCount",
            [run["Sort 75"] > run["WordCount 75"] for run in runs],
            "all",
        ),
        _order(
            "Figure 2.8a",
            "nothing gains 2% beyond the disk's bandwidth",
            [
                all(run[f"Sort {n} {b}"] > BEYOND_DISK for n in (10, 20) for b in (300, 500, 1000))
                for run in runs
            ],
            "all",
        ),
        _order(
            "Figure 3.2a",
            "time falls with every machine more, Sort",
            [run["Sort falls"] > 0 for run in runs],
            "all",
        ),
        _order(
            "Figure 3.2b",
            "time falls with every machine more, WordCount",
            [run["WordCount falls"] > 0 for run in runs],
            "all",
        ),
    ]
    return Findings(tuple(rows))


def _stages(runs: Sequence[Values]) -> Findings:
    figure = "Figure 3.3"
    rows = [
        _median(
            figure,
            f"Sort at 300 Mbps: error of the {name}, %",
            [run[name] for run in runs],
            scale=100,
            source=source,
        )
        for name, source in (("map", "least"), ("shuffle", ""), ("reduce", "most"))
    ]
    rows += [
        _median(
            figure,
            "error of the reduce with one speed for all disks, %",
            [run["reduce, one speed"] for run in runs],
            scale=100,
            source="worse",
        ),
        _median(
            figure,
            "the same, signed: below 0 is underestimated, %",
            [run["reduce, one speed, signed"] for run in runs],
            scale=100,
            source="below 0",
        ),
        _order(
            figure,
            "error of the map is below that of shuffle and reduce",
            [run["map"] < run["both"] for run in runs],
            "all",
        ),
        _order(
            figure,
            "shuffle and reduce are predicted better with each disk's speed",
            [run["both"] < run["both, one speed"] for run in runs],
            "all",
        ),
    ]
    return Findings(tuple(rows))


def _skew(runs: Sequence[Values]) -> Findings:
    figure = "Figure 3.4"
    rows = [
        _median(
            figure,
            f"error at a coefficient of variation of {skew:g}, %",
            [run[f"{skew:g}"] for run in runs],
            scale=100,
            source="26" if skew == PRODUCTION_SKEW else "",
        )
        for skew in SKEWS
    ]
    rows.append(
        _median(
            figure,
            "correlation of error and skew",
            [run["correlation"] for run in runs],
            source="about linear",
        )
    )
    rising = [all(run[f"{a:g}"] < run[f"{b:g}"] for a, b in pairwise(SKEWS)) for run in runs]
    rows.append(_order(figure, "error rises with every step of skew", rising, "all"))
    middle = [100 * float(np.median([run[f"{skew:g}"] for run in runs])) for skew in SKEWS]
    plot = Plot(
        figure,
        "Error over skew",
        "coefficient of variation",
        "error, %",
        (PlotSeries("Sort", SKEWS, middle), PlotSeries("source", [0.34], [26.0], points=True)),
    )
    return Findings(tuple(rows), (plot,))


def _slack(runs: Sequence[Values]) -> Findings:
    figure = "Section 4.4.2"
    rows = [
        _median(figure, "jobs with an outlier, %", [run["outlier"] for run in runs], scale=100, source="90")
    ]
    for share, source in (("0", "90"), ("0.25", "about 45"), ("0.5", "0")):
        metric = f"jobs late at a slack of {100 * float(share):g}%, %"
        rows.append(_median(figure, metric, [run[share] for run in runs], scale=100, source=source))
    return Findings(tuple(rows))


def _sizes(runs: Sequence[Values]) -> Findings:
    figure = "Section 2.2"
    note = "a series with 8% of noise and weekends at 60% of weekdays, the last of four weeks forecast"
    rows = [
        _median(
            figure,
            "error of the size forecast, %",
            [run["told"] for run in runs],
            scale=100,
            source="6.5",
            note=note,
        ),
        _median(
            figure,
            "the same without telling weekends, %",
            [run["untold"] for run in runs],
            scale=100,
            source="worse",
            note=note,
        ),
    ]
    return Findings(tuple(rows))


def _formulas(_: list[Any]) -> Findings:
    figure = "Section 3.2"
    profile = MapReduceProfile(s_map=1, s_reduce=1, b_map=200, b_reduce=400, b_disk=250)
    rows = []
    for machines, bandwidth, source in ANCHORS:
        job = MapReduceJob(input_bytes=1.6e6, n_map=1600, n_reduce=2 * machines, profile=profile)
        total = float(reserved_times(job, SLOTS, machines, bandwidth).total[0])
        metric = f"anchor: <{machines}, {bandwidth}>, s"
        rows.append(row(figure, metric, round(total, 1), source=f"{source:g}", note="derived, exact"))
    network = RackNetwork(machines_per_rack=30, nic=10.0, oversubscription=5)
    core, local = shuffle_over_racks(800.0, network, np.arange(1, len(RACKS) + 1))
    for racks, (time, source) in enumerate(zip(np.maximum(core, local), RACKS, strict=True), start=1):
        metric = f"anchor: shuffle on {racks} rack{'s' if racks > 1 else ''}, s"
        rows.append(row(figure, metric, round(float(time), 3), source=f"{source:g}", note="derived, exact"))
    web = web_throughput(2, 250) / web_throughput(4, 125)
    rows.append(
        row(
            "Figure 2.9",
            "web tier: throughput of <2, 250> over <4, 125>",
            round(web, 3),
            source="about 1",
            note="links bound it; as many bits in all",
        )
    )
    gain = 1 - factorisation_s(100) / factorisation_s(10)
    rows.append(
        row(
            "Figure 2.9",
            "Crout-LU: time that 100 Mbps take off that of 10 Mbps, %",
            round(100 * gain, 1),
            source="15 to 25",
            note="broadcasts overlap with work, as far as there is work; not tuned",
        )
    )
    missing = (
        UnreproducedRow(
            figure="Section 3.4", metric="time for 100 tuples", source="others: 100s of minutes", reason=CLOCK
        ),
        UnreproducedRow(figure="Section 3.4", metric="time for 10,000 tuples", source="", reason=CLOCK),
    )
    return Findings(tuple(rows), missing=missing)
