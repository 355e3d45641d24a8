"""Benchmark of placement: time on large clusters, and cost beside exact optimisation on small ones."""

from __future__ import annotations

import time

import numpy as np
from joblib import Parallel, delayed

from benchmarks.harness import Row, in_turn
from benchmarks.placement.instances import FAMILIES, PLAIN, SEEDS, cluster_of, instance, node_classes
from kwiken.allocator.placement import (
    Caution,
    Cluster,
    Node,
    NodeLedger,
    PlacementRequest,
    Sizing,
    admit_all,
    request_for,
)
from kwiken.allocator.placement.schedulers import scheduler, solve
from kwiken.allocator.workloads import (
    SOURCES,
    Estimate,
    Measure,
    Size,
    Spread,
    Target,
    Workload,
    WorkloadProfile,
)

NODES = 10_000
SORTS = 10
ARRIVAL_NODES = 1000
MIN_ARRIVALS_PER_S = 1000.0
TARGET_MEAN, TARGET_P90 = 5.0, 15.0  # %, over the joint optimum, of the default scheduler
SOLVER_S = 20.0  # longest search for an optimum; its best answer so far counts then
GREEDY = ("quasar", "thrifty", "exact", "paragon", "least-loaded", "reservation")


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds = 3 if quick else 11
    return [*_speed(rounds), _arrivals(300 if quick else 3000), _memory(), *_gaps(2 if quick else len(SEEDS))]


def cluster(nodes: int, rng: np.random.Generator) -> Cluster:
    """Nodes of four classes in equal parts on average, in three zones."""
    classes = node_classes(PLAIN)
    drawn = rng.integers(len(classes), size=nodes)
    return Cluster(
        classes,
        tuple(Node(f"n{n}", f"class-{kind}", f"zone-{n % 3}") for n, kind in enumerate(drawn.tolist())),
    )


def workload(
    number: int, replicas: float, rng: np.random.Generator, *, deviation: float = 0.0, most: int = 30
) -> tuple[Workload, WorkloadProfile]:
    """Workload that needs about so many of the largest replicas, with random curves and contention scores."""
    cores = np.array([1.0, 2.0, 4.0, 8.0])
    up = np.log(cores / 8) * rng.uniform(0.6, 1.0)
    counts = np.arange(1, most + 1)
    sigma = rng.uniform(0, 0.03)
    het = np.log([speed for _, _, speed, _ in PLAIN]) + rng.normal(0, 0.15, len(PLAIN))
    name = f"w{number}"

    def spread(mean: np.ndarray) -> Estimate:
        return Estimate(mean, np.full(len(mean), deviation))

    profile = WorkloadProfile(
        name=name,
        measure=Measure.RATE,
        base=1000.0,
        base_deviation=deviation,
        sizes=tuple(Size(float(each), float(each)) for each in cores),
        up=spread(up),
        replicas=counts,
        out=spread(np.log(counts / (1 + sigma * (counts - 1)))),
        classes=tuple(f"class-{place}" for place in range(len(PLAIN))),
        het=spread(het),
        tolerated=spread(rng.uniform(0.3, 1.0, len(SOURCES))),
        caused=spread(rng.uniform(0.0, 0.25, len(SOURCES))),
    )
    target = Target(p99_ms=50, rate_per_s=1000.0 * replicas)
    return Workload(name=name, memory_gb=1.0, target=target, spread=Spread.NODE, max_replicas=most), profile


def _requests(
    count: int, found: Cluster, rng: np.random.Generator, caution: Caution
) -> list[PlacementRequest]:
    pairs = [workload(n, float(rng.uniform(0.3, 3.0)), rng, deviation=0.05, most=30) for n in range(count)]
    return [request_for(*pair, found, caution) for pair in pairs]


def _speed(rounds: int) -> list[Row]:
    """One placement on a cluster that is half full, beside ten full sorts of a float a node."""
    rng = np.random.default_rng(0)
    found = cluster(NODES, rng)
    ledger = NodeLedger(found)
    admit_all(_requests(2500, found, rng, Caution()), ledger, scheduler("quasar"))
    wanted = request_for(*workload(0, 2.5, rng, deviation=0.05), found, Caution())
    numbers = rng.random(NODES)

    def sorts() -> None:
        for _ in range(SORTS):
            np.sort(numbers)

    rows = []
    for name in ("quasar", "thrifty"):
        chosen = scheduler(name)

        def place(chosen=chosen) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
            sizing = Sizing(wanted, ledger)
            chosen.place(sizing)
            sizing.clear()

        rows += in_turn(
            f"one placement on {NODES} nodes, {name}",
            place,
            [(f"{SORTS} sorts of {NODES} floats", sorts)],
            rounds=rounds,
            unit="ms",
            scale=1e3,
        )
    return rows


def _arrivals(count: int) -> Row:
    """Workloads that arrive, and leave when the cluster is full."""
    rng = np.random.default_rng(1)
    found = cluster(ARRIVAL_NODES, rng)
    requests = _requests(200, found, rng, Caution())
    ledger, chosen = NodeLedger(found), scheduler("quasar")
    there: list[Sizing] = []
    start = time.process_time()
    for number in range(count):
        sizing = Sizing(requests[number % len(requests)], ledger)
        chosen.place(sizing)
        there.append(sizing)
        if len(there) > ARRIVAL_NODES // 4:
            there.pop(0).clear()
    rate = count / (time.process_time() - start)
    return Row(
        name=f"arrivals placed, and as many departures, on {ARRIVAL_NODES} nodes, per second of one core",
        ours=rate,
        unit="/s",
        target=MIN_ARRIVALS_PER_S,
        met=rate >= MIN_ARRIVALS_PER_S,
    )


def _memory() -> Row:
    ledger = NodeLedger(cluster(NODES, np.random.default_rng(2)))
    arrays = (ledger.free_cores, ledger.free_memory_gb, ledger.pressure, ledger.slack, ledger.slack)
    return Row(
        name="arrays of the ledger, per node",
        ours=sum(array.nbytes for array in arrays) / NODES,
        unit="bytes",
    )


def _gaps(cases: int) -> list[Row]:
    """Cost over that of the joint optimum, by family, where all targets are met. Predictions are exact."""
    found = Parallel(n_jobs=-1)(
        delayed(_gap)(family, seed) for family in FAMILIES for seed in list(SEEDS)[:cases]
    )
    rows = []
    for family in FAMILIES:
        for name in GREEDY:
            gaps = [gap[name] for drawn, gap in found if drawn == family and name in gap]
            over = [gap for gap in gaps if gap is not None]
            target = (TARGET_MEAN, TARGET_P90) if name == "thrifty" else (None, None)
            label = f"{name}, {family} ({len(over)} of {len(gaps)} instances with all targets met)"
            figures = (("mean", np.mean(over)), ("p90", np.percentile(over, 90))) if over else ()
            for (words, value), most in zip(figures, target, strict=False):
                line = f"cost over the joint optimum, {words}, {label}"
                rows.append(Row(name=line, ours=float(value), unit="%", target=most))
    return rows


def _gap(family: str, seed: int) -> tuple[str, dict[str, float | None]]:
    """By scheduler: cost over the optimum, %; None where a target is missed, and empty without an optimum."""
    requests, found = instance(FAMILIES[family], seed), cluster_of(FAMILIES[family], seed)
    best = solve(requests, NodeLedger(found), time_limit_s=SOLVER_S)
    over: dict[str, float | None] = {}
    for name in GREEDY if np.isfinite(best.cost) else ():
        admissions = admit_all(requests, NodeLedger(found), scheduler(name, seed=seed))
        cost = sum(one.sizing.cost for one in admissions)
        kept = all(one.sizing.forecast().met for one in admissions)
        over[name] = 100 * (cost / best.cost - 1) if kept else None
    return family, over
