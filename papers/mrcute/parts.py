"""Tables of MRCute: the source's values, how ours are obtained, and the orders that are to hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np

from kwiken.batch.racks.response import RackHardware, shuffle_over_racks
from papers.figures.rows import Part, RequiredRow, unreproduced
from papers.figures.tables import PlotLine, PlotOf, StatedRow, exact, level, once, order, study
from papers.mrcute.executor import JOBS
from papers.mrcute.formulas import (
    MapReduceJob,
    MapReduceProfile,
    reserved_times,
)
from papers.mrcute.prediction import SLOTS
from papers.mrcute.trials import SKEWS, TUPLES, shapes, skewed, stage_errors, table_3_1

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
MISSING: Final = (
    RequiredRow("100", "Section 3.4", "time for 100 tuples", "others: 100s of minutes", CLOCK),
    RequiredRow("10,000", "Section 3.4", "time for 10,000 tuples", reason=CLOCK),
)
ONE_TIME: Final = f"{WORLD}; no law of machines and bandwidth gives the source's tuples one time"
Values = Mapping[str, float]
ORDER: Final = 8000  # of the matrix
PANEL: Final = 64  # columns that are broadcast together
DOUBLE_BITS: Final = 64
FLOPS: Final = 0.3e9  # of one machine in a factorisation without blocks
LU_MACHINES: Final = 4
LATENCY_S: Final = 1e-3  # of a broadcast


def factorisation_s(bandwidth_mbps: float) -> float:
    """Time of a factorisation by panels, seconds: a panel is broadcast while the one before it is applied.

    Args:
        bandwidth_mbps: bandwidth of each machine, megabits per second.
    """
    left = np.arange(ORDER, 0, -PANEL, dtype=np.float64)
    apply_s = 2 * left**2 * PANEL / (LU_MACHINES * FLOPS)
    broadcast_s = LATENCY_S + left * PANEL * DOUBLE_BITS / (1e6 * bandwidth_mbps)
    return float(np.maximum(apply_s[:-1], broadcast_s[1:]).sum() + broadcast_s[0] + apply_s[-1])


def _table_3_1() -> Iterator[StatedRow]:
    figure = "Table 3.1"
    for job in JOBS:
        for kind, values in (("mean", MEAN), ("p95", P95)):
            metric = f"{job.name}: {kind} prediction error, %"
            yield level(figure, metric, f"{job.name} {kind}", f"{values[job.name]:g}", scale=100)
    for job in JOBS:
        metric = f"{job.name}: time of profiling, s"
        yield level(figure, metric, f"{job.name} profiling", f"{PROFILING[job.name]:g}")
    for kind, source in (("mean", "11.5"), ("p95", "20.5")):
        metric = f"largest {kind} error of the five, %"
        yield level(figure, metric, partial(_largest, kind), source, scale=100)
    for letter, name in (("a", "Sort"), ("b", "WordCount")):
        metric = f"{name}: largest error over machines and bandwidth, %"
        yield level(f"Figure 3.2{letter}", metric, f"{name} largest", scale=100)


def _largest(kind: str, run: Values) -> float:
    return max(run[f"{job.name} {kind}"] for job in JOBS)


def _shapes() -> Iterator[StatedRow]:
    for letter, name in (("a", "Sort"), ("b", "WordCount")):
        figure = f"Figure 3.2{letter}"
        yield level(figure, f"{name}: log-log slope of time over machines", f"{name} slope", "-1")
        yield order(figure, f"time falls with every machine more, {name}", partial(_falls, name))
    disk = [f"Sort {n} {bandwidth}" for n in (10, 20) for bandwidth in (300, 500, 1000)]
    for key in disk:
        _, n, bandwidth = key.split()
        metric = f"Sort on {n} machines: time at {bandwidth} over time at 250 Mbps"
        yield level("Figure 2.8a", metric, key, "1")
    for name in ("Sort", "LinkGraph", "WordCount"):
        source = "Sort falls more than WordCount" if name != "LinkGraph" else ""
        yield level("Figure 2.8", f"{name}: time at 75 over time at 250 Mbps", f"{name} 75", source)
    for name, source in zip(TUPLES, ("5", "5", "3", "3"), strict=True):
        metric = f"{name}: largest deviation of the four tuples from their mean, %"
        yield level("Table 2.2", metric, name, source, ONE_TIME, scale=100)
    yield order(
        "Figure 2.8",
        "Sort gains more from bandwidth than WordCount",
        lambda run: run["Sort 75"] > run["WordCount 75"],
    )
    yield order(
        "Figure 2.8a",
        "nothing gains 2% beyond the disk's bandwidth",
        lambda run: all(run[key] > BEYOND_DISK for key in disk),
    )


def _falls(name: str, run: Values) -> bool:
    return run[f"{name} falls"] > 0


def _stages() -> Iterator[StatedRow]:
    figure = "Figure 3.3"
    for name, source in (("map", "least"), ("shuffle", ""), ("reduce", "most")):
        yield level(figure, f"Sort at 300 Mbps: error of the {name}, %", name, source, scale=100)
    metric = "error of the reduce with one speed for all disks, %"
    yield level(figure, metric, "reduce, one speed", "worse", scale=100)
    metric = "the same, signed: below 0 is underestimated, %"
    yield level(figure, metric, "reduce, one speed, signed", "below 0", scale=100)
    for words, better, worse in (
        ("error of the map is below that of shuffle and reduce", "map", "both"),
        ("shuffle and reduce are predicted better with each disk's speed", "both", "both, one speed"),
    ):
        yield order(figure, words, partial(_less, better, worse))


def _less(first: str, second: str, run: Values) -> bool:
    return run[first] < run[second]


def _skew() -> Iterator[StatedRow]:
    figure = "Figure 3.4"
    for skew in SKEWS:
        source = "26" if skew == PRODUCTION_SKEW else ""
        yield level(
            figure, f"error at a coefficient of variation of {skew:g}, %", f"{skew:g}", source, scale=100
        )
    yield level(figure, "correlation of error and skew", "correlation", "about linear")
    yield order(
        figure,
        "error rises with every step of skew",
        lambda run: all(run[f"{a:g}"] < run[f"{b:g}"] for a, b in pairwise(SKEWS)),
    )


def _percent(skew: float, run: Values) -> float:
    return 100 * run[f"{skew:g}"]


OVER_SKEW: Final = PlotOf(
    "Figure 3.4",
    "Error over skew",
    "coefficient of variation",
    "error, %",
    (
        PlotLine("Sort", SKEWS, [partial(_percent, skew) for skew in SKEWS]),
        PlotLine("source", (PRODUCTION_SKEW,), (26.0,), points=True),
    ),
)


def anchors() -> dict[str, float]:
    """Values of the formulas at the specification's anchors, and of two programs beside MapReduce."""
    profile = MapReduceProfile(s_map=1, s_reduce=1, b_map=200, b_reduce=400, b_disk=250)
    found = {}
    for machines, bandwidth, _ in ANCHORS:
        job = MapReduceJob(input_bytes=1.6e6, n_map=1600, n_reduce=2 * machines, profile=profile)
        found[f"<{machines}, {bandwidth}>"] = float(reserved_times(job, SLOTS, machines, bandwidth).total[0])
    rack = RackHardware(slots=1, machines=30, nic_bytes_per_s=10.0, uplink_bytes_per_s=60.0)
    core, local = shuffle_over_racks(800.0, rack, np.arange(1, len(RACKS) + 1))
    found |= {f"{racks} racks": float(time) for racks, time in enumerate(np.maximum(core, local), start=1)}
    found["factorisation"] = 100 * (1 - factorisation_s(100) / factorisation_s(10))
    return found


def _formulas() -> Iterator[StatedRow]:
    for machines, bandwidth, source in ANCHORS:
        key = f"<{machines}, {bandwidth}>"
        yield exact("Section 3.2", f"anchor: {key}, s", key, f"{source:g}")
    for racks, source in enumerate(RACKS, start=1):
        metric = f"anchor: shuffle on {racks} rack{'s' if racks > 1 else ''}, s"
        yield exact("Section 3.2", metric, f"{racks} racks", f"{source:g}")
    figure = "Figure 2.9"
    note = "broadcasts overlap with work, as far as there is work; not tuned"
    metric = "Crout-LU: time that 100 Mbps take off that of 10 Mbps, %"
    yield level(figure, metric, "factorisation", "15 to 25", note, spread=False)


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Parts of the reproduction.

    Args:
        seeds: number of runs of each part.
    """
    spread = partial(study, seeds=seeds, note=WORLD)
    return (
        once("formulas", anchors, _formulas(), note="derived, exact"),
        spread("table 3.1", table_3_1, rows=_table_3_1()),
        spread("shapes", shapes, rows=_shapes()),
        spread("stages", stage_errors, rows=_stages()),
        spread("skew", skewed, rows=_skew(), plots=(OVER_SKEW,)),
        unreproduced(MISSING),
    )
