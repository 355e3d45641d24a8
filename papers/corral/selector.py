"""Resource selector: the worked example, rejections, goodput, slack, quicker tuples (Figures 4.1 to 4.9)."""

from __future__ import annotations

import dataclasses
from typing import Final

import numpy as np

from papers.corral.requests import (
    DISK,
    MEAN_BANDWIDTH,
    RequestAdmission,
    RequestSettings,
    admitted,
    drawn_requests,
    shared_fairly,
)
from papers.corral.runs import FIRST_SEED, below, change, level, order
from papers.corral.tuples.rack_tree import RackTree
from papers.corral.tuples.tuple_selection import SelectionPolicy
from papers.figures.rows import (
    FigureRow,
    Findings,
    Part,
    Plot,
    PlotSeries,
    over_seeds,
    row,
)

OCCUPANCIES: Final = (0.25, 0.5, 0.75, 1.0)
BANDWIDTHS: Final = (100.0, 300.0, 500.0, 700.0, 900.0)
OVERSUBSCRIPTIONS: Final = (1.0, 2.0, 5.0, 10.0, 20.0)
DISKS: Final = (250.0, 1000.0)
SLACKS: Final = (0.0, 0.1, 0.25, 0.5)
NAMES: Final[dict[str, SelectionPolicy]] = {
    "Baseline": "base",
    "Corral-R": "random",
    "Corral-I": "balanced",
}
CASES: Final = (
    *(("occupancy", value) for value in OCCUPANCIES),
    *(("bandwidth", value) for value in BANDWIDTHS),
    *(("oversubscription", value) for value in OVERSUBSCRIPTIONS),
    *(("disk", value) for value in DISKS),
    *(("slack", value) for value in SLACKS),
    ("testbed", 0.0),
)
TESTBED: Final = RequestSettings(disk=250.0, requests=100)


def selected(kind: str, value: float, seed: int) -> dict[str, RequestAdmission]:
    """Admissions at one point of a sweep, by policy."""
    seed += FIRST_SEED
    settings = RequestSettings()
    if kind == "occupancy":
        settings = dataclasses.replace(settings, occupancy=value)
    elif kind == "bandwidth":
        settings = dataclasses.replace(settings, bandwidth=value)
    elif kind == "disk":
        settings = dataclasses.replace(settings, disk=value)
    elif kind == "slack":
        settings = dataclasses.replace(settings, slack=value)
    elif kind == "testbed":
        settings = TESTBED
    requests = drawn_requests(settings, seed)
    over = value if kind == "oversubscription" else 10.0
    found = {
        name: admitted(requests, policy, seed, oversubscription=over, outliers=kind == "slack")
        for name, policy in NAMES.items()
        if kind in {"occupancy", "bandwidth"} or name != "Corral-R"
    }
    if kind == "occupancy":
        found["Corral-T"] = admitted(requests, "time", seed)
        found["Strawman"] = admitted(requests, "fastest", seed)
        found["Fair"] = shared_fairly(requests)
    if kind == "slack":
        found["Oracle"] = admitted(requests, "base", seed, outliers=True, oracle=True)
    return found


def worked_example() -> list[float]:
    """Imbalance of <3, 500> and <6, 200> over changed resources, machines and links, and all resources."""
    tree = RackTree(2, np.zeros(4, dtype=np.int64), np.zeros(1, dtype=np.int64), 1000.0, 1e9, 1e9)
    few, many = tree.reserve(3, 500.0), tree.reserve(6, 200.0)
    assert few is not None
    assert many is not None
    out = []
    for resources in ("changed", "machines", "all"):
        for found, left in ((few, 5 / 8), (many, 2 / 8)):
            value = tree.imbalance(found, resources)
            # The tree has a pod of one rack, and uplinks that nothing uses; the example has neither.
            value -= left**2 if resources != "machines" else 0.0
            out.append(value - (2.0 if resources == "all" else 0.0))
    return out


def _example(results: list[list[float]]) -> Findings:
    few, many, _, _, few_all, many_all = results[0]
    figure = "Figure 4.1"
    return Findings(
        (
            row(figure, "imbalance of <3, 500>, changed resources", round(few, 4), source="1.1406"),
            row(figure, "imbalance of <6, 200>, changed resources", round(many, 4), source="1.1425"),
            row(figure, "tuple chosen, changed resources", 1.0 if few < many else 2.0, source="1, the first"),
            row(figure, "imbalance of <3, 500>, all resources", round(few_all, 4)),
            row(figure, "imbalance of <6, 200>, all resources", round(many_all, 4)),
            row(figure, "tuple chosen, all resources", 1.0 if few_all < many_all else 2.0, source="2"),
        )
    )


def _rows(results: list[list[dict[str, RequestAdmission]]]) -> Findings:
    by_case = dict(zip(CASES, results, strict=True))
    rows = [
        *_rejections(by_case, "Figure 4.4a", "occupancy", OCCUPANCIES),
        *_rejections(by_case, "Figure 4.4b", "bandwidth", BANDWIDTHS),
        *_goodput(by_case, "Figure 4.5a", "occupancy", OCCUPANCIES),
        *_goodput(by_case, "Figure 4.5b", "bandwidth", BANDWIDTHS),
        *_network(by_case),
        *_fair(by_case),
        *_slack(by_case),
        *_time(by_case),
        *_testbed(by_case),
    ]
    lines = tuple(
        PlotSeries(
            name,
            OCCUPANCIES,
            [
                float(np.median([100 * one[name].rejected for one in by_case["occupancy", value]]))
                for value in OCCUPANCIES
            ],
        )
        for name in (*NAMES, "Fair", "Corral-T")
    )
    plots = (Plot("Figure 4.4a", "rejected requests by occupancy", "occupancy", "rejected, %", lines),)
    return Findings(tuple(rows), plots)


Cases = dict[tuple[str, float], list[dict[str, RequestAdmission]]]


def _rejections(by_case: Cases, figure: str, kind: str, values: tuple[float, ...]) -> list[FigureRow]:
    rows = []
    source = {
        "Corral-I": "3 to 14 points below Baseline" if kind == "occupancy" else "19.9 below Baseline at 900",
        "Corral-R": "2 to 5 above Corral-I" if kind == "occupancy" else "",
        "Baseline": "",
    }
    for value in values:
        shown = f"{100 * value:g}%" if kind == "occupancy" else f"{value:g} Mbit/s"
        rows += [
            level(
                figure,
                f"rejected at {shown}, %: {name}",
                [100 * one[name].rejected for one in by_case[kind, value]],
                source[name],
            )
            for name in NAMES
        ]
    seeds = range(len(by_case[kind, values[0]]))
    every = [[by_case[kind, value][seed] for value in values[1:]] for seed in seeds]
    for first, second in (("Corral-I", "Corral-R"), ("Corral-R", "Baseline"), ("Corral-I", "Baseline")):
        rows.append(
            order(
                figure,
                f"{first} rejects fewer than {second} at each but the least {kind}",
                [all(one[first].rejected < one[second].rejected for one in points) for points in every],
            )
        )
    if kind == "bandwidth":
        lead = [[one["Baseline"].rejected - one["Corral-I"].rejected for one in points] for points in every]
        rows.append(
            order(figure, "the lead of Corral-I grows from 300 to 900 Mbit/s", [x[-1] > x[0] for x in lead])
        )
    else:
        rows += [
            order(
                figure,
                f"{name} rejects more at full occupancy than at 25%",
                [
                    by_case[kind, values[-1]][seed][name].rejected
                    > by_case[kind, values[0]][seed][name].rejected
                    for seed in seeds
                ],
            )
            for name in NAMES
        ]
    return rows


def _goodput(by_case: Cases, figure: str, kind: str, values: tuple[float, ...]) -> list[FigureRow]:
    rows = []
    for value in values:
        shown = f"{100 * value:g}%" if kind == "occupancy" else f"{value:g} Mbit/s"
        for name, source in (
            ("Corral-I", "7 to 87; 56 at 75%, 500"),
            ("Corral-R", "0 to 66; 39 at 75%, 500"),
        ):
            gains = [change(one[name].goodput, one["Baseline"].goodput) for one in by_case[kind, value]]
            rows.append(level(figure, f"goodput over Baseline at {shown}, %: {name}", gains, source))
    held = [
        one["Corral-I"].goodput > one["Corral-R"].goodput > one["Baseline"].goodput
        for one in by_case[kind, 0.75 if kind == "occupancy" else MEAN_BANDWIDTH]
    ]
    rows.append(order(figure, "Corral-I before Corral-R before Baseline at 75%, 500 Mbit/s", held))
    return rows


def _network(by_case: Cases) -> list[FigureRow]:
    rows = []
    for value in OVERSUBSCRIPTIONS:
        points = by_case["oversubscription", value]
        gains = [change(one["Corral-I"].goodput, one["Baseline"].goodput) for one in points]
        source = "27" if value == 1 else ""
        rows.append(level("Figure 4.6", f"goodput over Baseline at {value:g}:1, %", gains, source))
    flat = by_case["oversubscription", 1.0]
    more = [change(1 - one["Corral-I"].rejected, 1 - one["Baseline"].rejected) for one in flat]
    rows.append(level("Figure 4.6", "requests accepted over Baseline at 1:1, %", more, "10"))
    for value in DISKS:
        gains = [change(one["Corral-I"].goodput, one["Baseline"].goodput) for one in by_case["disk", value]]
        source = "2" if value != DISK else "more"
        rows.append(
            level("Section 4.4.2", f"goodput over Baseline, disks of {value:g} Mbit/s, %", gains, source)
        )
    return rows


def _fair(by_case: Cases) -> list[FigureRow]:
    rows = []
    for value in OCCUPANCIES:
        points = by_case["occupancy", value]
        rows.append(
            level(
                "Figure 4.7a",
                f"rejected at {100 * value:g}%, %: fair sharing",
                [100 * one["Fair"].rejected for one in points],
                "better at low, worse at high",
            )
        )
    full = by_case["occupancy", 1.0]
    rows += [
        level(
            "Figure 4.7b",
            "late under fair sharing, %",
            [100 * one["Fair"].late for one in full],
            "50 or more",
        ),
        level("Figure 4.7b", "late by a factor of 2, %", [100 * one["Fair"].twice for one in full], "12"),
        order(
            "Figure 4.7a",
            "fair sharing rejects more than Corral-I at full occupancy",
            [one["Fair"].rejected > one["Corral-I"].rejected for one in full],
        ),
    ]
    return rows


def _slack(by_case: Cases) -> list[FigureRow]:
    rows = []
    for value in SLACKS:
        points = by_case["slack", value]
        shown = f"slack {100 * value:g}%"
        for name in ("Corral-I", "Oracle"):
            rejected = [100 * one[name].rejected for one in points]
            rows.append(level("Section 4.4.2", f"rejected at {shown}, %: {name}", rejected))
        source = {0.0: "90", 0.5: "0"}.get(value, "")
        late = [100 * one["Corral-I"].late for one in points]
        rows.append(level("Section 4.4.2", f"late at {shown}, %", late, source))
    for value in SLACKS[:-1]:
        held = [one["Corral-I"].rejected < one["Oracle"].rejected for one in by_case["slack", value]]
        rows.append(
            order("Section 4.4.2", f"Corral-I rejects fewer than the oracle at slack {100 * value:g}%", held)
        )
    return rows


def _time(by_case: Cases) -> list[FigureRow]:
    rows = []
    for value in OCCUPANCIES:
        points = by_case["occupancy", value]
        for name in ("Corral-T", "Corral-I", "Strawman"):
            gains = [change(one[name].goodput, one["Baseline"].goodput) for one in points]
            source = "Corral-T ahead at high" if name == "Corral-T" else "poor" if name == "Strawman" else ""
            rows.append(
                level("Figure 4.9", f"goodput over Baseline at {100 * value:g}%, %: {name}", gains, source)
            )
    full = by_case["occupancy", 1.0]
    rows += [
        level(
            "Figure 4.9",
            "median time over the wanted at 100%: Corral-T",
            [one["Corral-T"].over_wanted for one in full],
            "below .5",
        ),
        level(
            "Figure 4.9",
            "jobs that are 80% quicker, %: Corral-T",
            [100 * one["Corral-T"].much_quicker for one in full],
            "20",
        ),
        order(
            "Figure 4.9",
            "Corral-T before Corral-I in goodput at 100%",
            [below(one["Corral-I"].goodput, one["Corral-T"].goodput) for one in full],
        ),
        order(
            "Figure 4.9",
            "Strawman after Corral-I in goodput at 100%",
            [below(one["Strawman"].goodput, one["Corral-I"].goodput) for one in full],
        ),
    ]
    return rows


def _testbed(by_case: Cases) -> list[FigureRow]:
    points = by_case["testbed", 0.0]
    note = "100 requests on the simulated cluster, disks of 250 Mbit/s; the source's 26 nodes are real"
    return [
        level(
            "Figure 4.8",
            "jobs accepted over Baseline, %",
            [change(1 - one["Corral-I"].rejected, 1 - one["Baseline"].rejected) for one in points],
            "11.43",
            note,
        ),
        level(
            "Figure 4.8",
            "goodput over Baseline, %",
            [change(one["Corral-I"].goodput, one["Baseline"].goodput) for one in points],
            "15.47",
            note,
        ),
        level("Figure 4.8", "late, %", [100 * one["Corral-I"].late for one in points], "below 2", note),
    ]


FIGURES: Final = (
    *(f"Figure 4.{one}" for one in ("4a", "4b", "5a", "5b", "6", "7a", "7b", "8", "9")),
    "Section 4.4.2",
)


def selector(seeds: int) -> tuple[Part, ...]:
    """Parts of the resource selector."""
    return (
        Part("worked example", ((worked_example, ()),), _example, ("Figure 4.1",)),
        over_seeds("selector", selected, seeds, _rows, CASES, figures=FIGURES),
    )
