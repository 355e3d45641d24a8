"""Parts of the reproduction of colocation, in the order of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np

from papers.colocation.architectures import (
    ARCHITECTURES,
    CARRIED,
    CARRIED_NOTE,
    NAMES,
    carried_scores,
)
from papers.colocation.configurations import (
    CONFIGURATIONS,
    LAMBDAS,
    MovedFleet,
    PackedFleet,
    one_seed,
)
from papers.colocation.exact import GAPS, NOTE, gaps_from_optimum
from papers.colocation.fleet import drawn_fleet
from papers.colocation.limits import SIMULATED, limit_plots, limit_rows, limited
from papers.colocation.usage_clusters import cluster_usage, elbow
from papers.figures.rows import Part, RequiredRow, unreproduced
from papers.figures.tables import StatedRow, above, level, once, order, study

Seed = tuple[dict[str, PackedFleet], dict[str, MovedFleet], dict[float, PackedFleet]]
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


CLUSTERS: Final = (
    level("Figure 1", "p99 of cores used, % of requests", (2, 0), scale=100),
    level("Figure 1", "p99 of memory used, % of requests", (2, 1), scale=100),
    level("Figure 2", "clusters at the elbow", (0,), "3"),
    *(
        level("Figure 2", f"share of the tasks of {name} use, %", (1, at), scale=100)
        for at, name in enumerate(("low", "medium", "high"))
    ),
)


def _of(name: str, value: Callable[[PackedFleet], float]) -> Callable[[Seed], float]:
    """A figure of one packing from nothing."""
    return lambda one: value(one[0][name])


def _change(name: str, value: Callable[[PackedFleet], float]) -> Callable[[Seed], float]:
    """Change of a figure relative to the baseline in percent."""
    return lambda one: 100 * (value(one[0][name]) / value(one[0]["Baseline"]) - 1)


def _moves() -> Iterator[StatedRow]:
    touched = partial(level, note=TOUCHED)
    for name in CONFIGURATIONS:
        yield touched("Figure 7", f"tasks moved, {name}", partial(_moves_of, name), "400")
        for at, kind in enumerate(NAMES):
            source = "P99 frees most" if (name, kind) == ("P99", "Skylake16") else ""
            freed = partial(_freed_of, name, at)
            yield touched("Figure 8", f"hosts freed, {name}, {kind}", freed, source)
    for name in OTHERS:
        metric = f"hosts, {name}, touched by the moves, % of Baseline"
        source = {"P99": "-50", "P99 Sens": "+30"}.get(name, "")
        yield touched("Figure 10", metric, partial(_remaining, name), source)
        metric = f"score of the hosts freed, {name}, more than Baseline, %"
        source = "WSL -75 (P99)" if name == "P99" else ""
        yield touched("Figure 10", metric, partial(_score_freed, name), source)


def _moves_of(name: str, one: Seed) -> int:
    return one[1][name].moves


def _freed_of(name: str, at: int, one: Seed) -> int:
    return one[1][name].freed[at]


def _remaining(name: str, one: Seed) -> float | None:
    own, base = one[1][name], one[1]["Baseline"]
    if not own.touched or not base.touched:
        return None
    return 100 * (own.remaining / own.touched * base.touched / base.remaining - 1)


def _score_freed(name: str, one: Seed) -> float:
    return 100 * (_freed(one[1][name]) / max(_freed(one[1]["Baseline"]), 1e-9) - 1)


def _freed(moved: MovedFleet) -> float:
    return float(sum(count * one.speed for count, one in zip(moved.freed, ARCHITECTURES, strict=True)))


def _fleet_wide() -> Iterator[StatedRow]:
    for name in CONFIGURATIONS:
        for at, what in enumerate(("cores", "memory")):
            value = _of(name, lambda one, at=at: one.fragmentation[at])  # type: ignore[misc]
            metric = f"{what} not used at p99, {name}, % of hosts in use"
            yield level("Figure 9", metric, value, scale=100)
    for name in (*OTHERS, "P99 Sens, host basis"):
        hosts, score = {"P99": ("-50", "-75"), "P99 Sens": ("+30", "")}.get(name, ("", ""))
        value = _change(name, lambda one: one.hosts)
        yield level("Figure 10", f"hosts, {name}, fleet-wide, % of Baseline", value, hosts)
        value = _change(name, lambda one: one.weighted)
        yield level("Figure 10", f"score of hosts in use, {name}, fleet-wide, % of Baseline", value, score)
        yield level(
            "Figure 10",
            f"tasks that no host can take, {name}",
            _of(name, lambda one: one.unplaced),
            note="sums of scores above 1 are forbidden, and the hosts are used up",
            shown=partial(_unplaced, name),
        )
    yield from _costs()
    yield from _risks()


def _costs() -> Iterator[StatedRow]:
    value = _of("Baseline", lambda one: 100 * (1 - one.cost[1] / 3.3 / one.hosts))
    yield level("Section V-C", "small hosts of the baseline's, %", value, "45.9 (derived)")
    for at, (what, source) in enumerate((("all", "-39.94"), ("type II", "-31.86"), ("type I", "-71.42"))):
        value = _change("P99", lambda one, at=at: one.cost[at])  # type: ignore[misc]
        note = f"price 1 : 3.3; {FLEET_WIDE}"
        yield level("Section V-C", f"cost at P99, {what}, %", value, source, note)
    for name in ("Baseline", "P99", "P99 Sens"):
        for kind, source in (("Broadwell20", "rises at P99"), ("Skylake14", "falls at P99")):
            density = partial(_density, name, NAMES.index(kind))
            yield level("Figure 11", f"tasks on a host, {name}, {kind}", density, source)


def _risks() -> Iterator[StatedRow]:
    for name, source in (("P99", "+25"), ("P99 Sens", "-22")):
        value = _change(name, lambda one: max(one.affected, 1))
        yield level("Figure 12", f"tasks on hosts with a sum above 1, {name}, % of Baseline", value, source)
    for name in ("Baseline", "P99", "P99 Sens"):
        for at, what in enumerate(("processors", "memory bandwidth", "network bandwidth")):
            value = _of(name, lambda one, at=at: one.excess[at])  # type: ignore[misc]
            yield level("Figure 12", f"sum above 1, {name}, {what}", value)
    for weight in LAMBDAS:
        for metric, summed in (("hosts", _hosts), ("sum above 1", _above)):
            value = partial(_at, weight, summed)
            yield level("The dial", f"{metric} at lambda {weight:g}", value, "monotone")


def _at(weight: float, value: Callable[[PackedFleet], float], one: Seed) -> float:
    return value(one[2][weight])


def _unplaced(name: str, seeds: list[Seed]) -> bool:
    return any(one[0][name].unplaced for one in seeds)


def _density(name: str, at: int, one: Seed) -> float | None:
    packed = one[0][name]
    return packed.tasks_by_type[at] / packed.by_type[at] if packed.by_type[at] else None


def _hosts(one: PackedFleet) -> int:
    return one.hosts


def _above(one: PackedFleet) -> float:
    return sum(one.excess)


def _orders() -> Iterator[StatedRow]:
    """Orders of configurations, and of the dial's settings."""
    for first, second in (
        ("P99", "P99 CPU"),
        ("P99", "P99 Mem"),
        ("P99 CPU", "Baseline"),
        ("P99 Mem", "Baseline"),
        ("Baseline", "P99 Sens"),
    ):
        fewer = above(_of(second, _hosts), _of(first, _hosts))
        yield order("Orders", f"hosts: {first} < {second}", fewer, note="")
    for first, second in (("Baseline", "P99"), ("P99 Sens", "Baseline")):
        fewer = above(*(_of(name, lambda one: one.affected) for name in (second, first)))
        yield order("Orders", f"tasks at risk: {first} < {second}", fewer, note="")
    for words, holds in (
        (
            "both percentiles save more than the sum of either",
            lambda one: _saved("P99", one) > _saved("P99 CPU", one) + _saved("P99 Mem", one),
        ),
        (
            "hosts do not fall with lambda",
            lambda one: _rises([one[2][weight].hosts for weight in LAMBDAS]),
        ),
        (
            "interference does not rise with lambda",
            lambda one: _rises([-_above(one[2][weight]) for weight in LAMBDAS]),
        ),
    ):
        yield order("Orders", words, holds, note="")


def _saved(name: str, one: Seed) -> int:
    return one[0]["Baseline"].hosts - one[0][name].hosts


def _rises(values: list[float]) -> bool:
    return all(later >= earlier - 1e-9 for earlier, later in pairwise(values))


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
    """Parts of the reproduction.

    Args:
        seeds: number of synthetic fleets to take medians over.
    """
    spread = partial(study, seeds=seeds)
    packings = (*_moves(), *_fleet_wide(), *_orders())
    return (
        once("scores", carried_scores, CARRIED, note=CARRIED_NOTE),
        spread("clusters", clusters, rows=CLUSTERS, note=SYNTHETIC),
        spread("limits", limited, rows=limit_rows(), plots=limit_plots(), note=SIMULATED),
        spread("packings", one_seed, rows=packings, note=FLEET_WIDE),
        spread("optimum", gaps_from_optimum, rows=GAPS, note=NOTE),
        unreproduced(MISSING),
    )
