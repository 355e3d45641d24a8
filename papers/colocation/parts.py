"""Parts of the reproduction of colocation, in the order of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np

from papers.colocation.architectures import NAMES, carried_scores, conclude_carried
from papers.colocation.configurations import (
    CONFIGURATIONS,
    LAMBDAS,
    MovedFleet,
    PackedFleet,
    one_seed,
)
from papers.colocation.exact import conclude_gaps, gaps_from_optimum
from papers.colocation.fleet import drawn_fleet
from papers.colocation.limits import conclude_limited, limited, spread_row
from papers.colocation.usage_clusters import cluster_usage, elbow
from papers.figures.rows import FigureRow, Findings, Part, RequiredRow, order_row, unreproduced

Seeds = list[tuple[dict[str, PackedFleet], dict[str, MovedFleet], dict[float, PackedFleet]]]
SYNTHETIC: Final = (
    "synthetic fleet of 900 hosts and 1,000 tasks, fixed before the first run; the source's is production"
)
FLEET_WIDE: Final = f"fleet-wide, packed from nothing; {SYNTHETIC}"
TOUCHED: Final = f"of the hosts that 400 moves touch, from a random placement in use; {SYNTHETIC}"
OTHERS: Final = ("P99 CPU", "P99 Mem", "P99", "P99 Sens")
MAX_CLUSTERS: Final = 8


def clusters(seed: int) -> tuple[int, list[float], tuple[float, float, float]]:
    """Clusters at the elbow, shares of three clusters, and mean use: cores, memory, of requests."""
    fleet = drawn_fleet(seed)
    rng = np.random.default_rng([seed, 43])
    features = np.clip(fleet.used / fleet.requested, 0, 1)
    labels = cluster_usage(features, 3, rng).labels
    shares = (np.bincount(labels, minlength=3) / len(labels)).tolist()
    means = (fleet.used.sum(axis=0) / fleet.requested.sum(axis=0)).tolist()
    return elbow(features, MAX_CLUSTERS, rng), shares, (means[0], means[1], 0.0)


def conclude_clusters(results: list[Any]) -> Findings:
    """Rows of Figures 1 and 2."""
    rows = [
        spread_row(
            "Figure 1",
            "p99 of cores used, % of requests",
            [100 * one[2][0] for one in results],
            "",
            SYNTHETIC,
        ),
        spread_row(
            "Figure 1",
            "p99 of memory used, % of requests",
            [100 * one[2][1] for one in results],
            "",
            SYNTHETIC,
        ),
        spread_row("Figure 2", "clusters at the elbow", [float(one[0]) for one in results], "3", SYNTHETIC),
    ]
    for place, name in enumerate(("low", "medium", "high")):
        rows.append(
            spread_row(
                "Figure 2",
                f"share of the tasks of {name} use, %",
                [100 * one[1][place] for one in results],
                "",
                SYNTHETIC,
            )
        )
    return Findings(tuple(rows))


def conclude_packings(results: Seeds) -> Findings:
    """Rows of Figures 7 to 12, of Section V-C, of the dial, and the orders."""
    rows = [*_moves(results), *_fleet_wide(results), *_dial(results), *_orders(results)]
    return Findings(tuple(rows))


def _relative(results: Seeds, name: str, value: Callable[[PackedFleet], float]) -> list[float]:
    """Change relative to the baseline in percent, by seed."""
    return [100 * (value(packed[name]) / value(packed["Baseline"]) - 1) for packed, _, _ in results]


def _moves(results: Seeds) -> Iterator[FigureRow]:
    for name in CONFIGURATIONS:
        own = [moves[name] for _, moves, _ in results]
        yield spread_row(
            "Figure 7", f"tasks moved, {name}", [float(one.moves) for one in own], "400", TOUCHED
        )
        for at, kind in enumerate(NAMES):
            source = "P99 frees most" if (name, kind) == ("P99", "Skylake16") else ""
            yield spread_row(
                "Figure 8",
                f"hosts freed, {name}, {kind}",
                [float(one.freed[at]) for one in own],
                source,
                TOUCHED,
            )
    for name in OTHERS:
        values = [
            100
            * (
                moves[name].remaining
                / moves[name].touched
                * moves["Baseline"].touched
                / moves["Baseline"].remaining
                - 1
            )
            for _, moves, _ in results
            if moves[name].touched and moves["Baseline"].touched
        ]
        source = {"P99": "-50", "P99 Sens": "+30"}.get(name, "")
        yield spread_row(
            "Figure 10", f"hosts, {name}, touched by the moves, % of Baseline", values, source, TOUCHED
        )
        weighted = [
            100 * (_freed(moves[name]) / max(_freed(moves["Baseline"]), 1e-9) - 1) for _, moves, _ in results
        ]
        yield spread_row(
            "Figure 10",
            f"score of the hosts freed, {name}, more than Baseline, %",
            weighted,
            "WSL -75 (P99)" if name == "P99" else "",
            TOUCHED,
        )


def _freed(moved: MovedFleet) -> float:
    from papers.colocation.architectures import ARCHITECTURES

    return float(sum(count * one.speed for count, one in zip(moved.freed, ARCHITECTURES, strict=True)))


def _fleet_wide(results: Seeds) -> Iterator[FigureRow]:
    for name in CONFIGURATIONS:
        for place, what in enumerate(("cores", "memory")):
            values = [100 * packed[name].fragmentation[place] for packed, _, _ in results]
            yield spread_row(
                "Figure 9", f"{what} not used at p99, {name}, % of hosts in use", values, "", FLEET_WIDE
            )
    for name in (*OTHERS, "P99 Sens, host basis"):
        told = {"P99": ("-50", "-75"), "P99 Sens": ("+30", "")}.get(name, ("", ""))
        yield spread_row(
            "Figure 10",
            f"hosts, {name}, fleet-wide, % of Baseline",
            _relative(results, name, lambda one: one.hosts),
            told[0],
            FLEET_WIDE,
        )
        yield spread_row(
            "Figure 10",
            f"score of hosts in use, {name}, fleet-wide, % of Baseline",
            _relative(results, name, lambda one: one.weighted),
            told[1],
            FLEET_WIDE,
        )
        left = [float(packed[name].unplaced) for packed, _, _ in results]
        if max(left):
            yield spread_row(
                "Figure 10",
                f"tasks that no host can take, {name}",
                left,
                "",
                "sums of scores above 1 are forbidden, and the hosts are used up",
            )
    yield from _costs(results)
    yield from _risks(results)


def _costs(results: Seeds) -> Iterator[FigureRow]:
    small = [
        100 * (1 - packed["Baseline"].cost[1] / 3.3 / packed["Baseline"].hosts) for packed, _, _ in results
    ]
    yield spread_row("Section V-C", "small hosts of the baseline's, %", small, "45.9 (derived)", FLEET_WIDE)
    for place, (what, source) in enumerate((("all", "-39.94"), ("type II", "-31.86"), ("type I", "-71.42"))):
        values = _relative(results, "P99", lambda one, place=place: one.cost[place])  # type: ignore[misc]
        yield spread_row(
            "Section V-C", f"cost at P99, {what}, %", values, source, f"price 1 : 3.3; {FLEET_WIDE}"
        )
    for name in ("Baseline", "P99", "P99 Sens"):
        for kind, source in (("Broadwell20", "rises at P99"), ("Skylake14", "falls at P99")):
            at = NAMES.index(kind)
            values = [
                packed[name].tasks_by_type[at] / packed[name].by_type[at]
                for packed, _, _ in results
                if packed[name].by_type[at]
            ]
            if values:
                yield spread_row("Figure 11", f"tasks on a host, {name}, {kind}", values, source, FLEET_WIDE)


def _risks(results: Seeds) -> Iterator[FigureRow]:
    for name, source in (("P99", "+25"), ("P99 Sens", "-22")):
        yield spread_row(
            "Figure 12",
            f"tasks on hosts with a sum above 1, {name}, % of Baseline",
            _relative(results, name, lambda one: max(one.affected, 1)),
            source,
            FLEET_WIDE,
        )
    for name in ("Baseline", "P99", "P99 Sens"):
        for place, what in enumerate(("processors", "memory bandwidth", "network bandwidth")):
            yield spread_row(
                "Figure 12",
                f"sum above 1, {name}, {what}",
                [packed[name].excess[place] for packed, _, _ in results],
                "",
                FLEET_WIDE,
            )


def _dial(results: Seeds) -> Iterator[FigureRow]:
    for weight in LAMBDAS:
        own = [dials[weight] for _, _, dials in results]
        yield spread_row(
            "The dial",
            f"hosts at lambda {weight:g}",
            [float(one.hosts) for one in own],
            "monotone",
            FLEET_WIDE,
        )
        yield spread_row(
            "The dial",
            f"sum above 1 at lambda {weight:g}",
            [sum(one.excess) for one in own],
            "monotone",
            FLEET_WIDE,
        )


def _orders(results: Seeds) -> Iterator[FigureRow]:
    """Orders of configurations, and of the dial's settings."""
    orders: dict[str, Callable[[int], bool]] = {
        "hosts: P99 < P99 CPU": lambda at: results[at][0]["P99"].hosts < results[at][0]["P99 CPU"].hosts,
        "hosts: P99 < P99 Mem": lambda at: results[at][0]["P99"].hosts < results[at][0]["P99 Mem"].hosts,
        "hosts: P99 CPU < Baseline": lambda at: (
            results[at][0]["P99 CPU"].hosts < results[at][0]["Baseline"].hosts
        ),
        "hosts: P99 Mem < Baseline": lambda at: (
            results[at][0]["P99 Mem"].hosts < results[at][0]["Baseline"].hosts
        ),
        "hosts: Baseline < P99 Sens": lambda at: (
            results[at][0]["Baseline"].hosts < results[at][0]["P99 Sens"].hosts
        ),
        "tasks at risk: Baseline < P99": lambda at: (
            results[at][0]["Baseline"].affected < results[at][0]["P99"].affected
        ),
        "tasks at risk: P99 Sens < Baseline": lambda at: (
            results[at][0]["P99 Sens"].affected < results[at][0]["Baseline"].affected
        ),
        "both percentiles save more than the sum of either": lambda at: (
            _saved(results, at, "P99") > _saved(results, at, "P99 CPU") + _saved(results, at, "P99 Mem")
        ),
        "hosts do not fall with lambda": lambda at: _rises(
            [results[at][2][weight].hosts for weight in LAMBDAS]
        ),
        "interference does not rise with lambda": lambda at: _rises(
            [-sum(results[at][2][weight].excess) for weight in LAMBDAS]
        ),
    }
    for name, holds in orders.items():
        yield order_row("Orders", name, [holds(at) for at in range(len(results))])


def _saved(results: Seeds, at: int, name: str) -> int:
    return results[at][0]["Baseline"].hosts - results[at][0][name].hosts


def _rises(values: list[float]) -> bool:
    return all(later >= earlier - 1e-9 for earlier, later in pairwise(values))


PACKED: Final = (*(f"Figure {number}" for number in range(7, 13)), "Section V-C", "The dial", "Orders")
MISSING: Final = (
    RequiredRow(
        "Figure 1",
        "Figure 1",
        "mean use by number of hosts of a job",
        "20% of CPU, 31% of memory for 93% of the jobs",
        "a survey of production; the synthetic fleet is drawn with its p99 of use",
    ),
    RequiredRow(
        "Figure 6",
        "Figure 6",
        "effect of an injector on 10% of the cores",
        "smaller",
        "needs a host with enough cores to inject from 10% of them; kwiken probe stage measures one injector",
    ),
)


def all_parts(seeds: int) -> tuple[Part, ...]:
    """Every part of the reproduction.

    Args:
        seeds: number of synthetic fleets to take medians over.
    """
    by_seed: tuple[tuple[str, Callable[..., Any], Callable[[list[Any]], Findings], tuple[str, ...]], ...] = (
        ("clusters", clusters, conclude_clusters, ("Figure 1", "Figure 2")),
        (
            "limits",
            limited,
            conclude_limited,
            (*(f"Figure {number}" for number in (3, 4, 5, 6)), "Section VI-A"),
        ),
        ("packings", one_seed, conclude_packings, PACKED),
        ("optimum", gaps_from_optimum, conclude_gaps, ("Optimum",)),
    )
    return (
        Part("scores", ((carried_scores, ()),), conclude_carried, ("Table III",)),
        *(
            Part(name, tuple((job, (seed,)) for seed in range(seeds)), end, figures)
            for name, job, end, figures in by_seed
        ),
        unreproduced(MISSING),
    )
