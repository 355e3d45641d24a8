"""Benchmark of placement: time on large clusters, and cost beside exact optimisation on small ones."""

from __future__ import annotations

import itertools
import sys
import time

import msgspec
import numpy as np
from joblib import Parallel, delayed

from benchmarks.harness import Row, paired, timed
from benchmarks.placement.joint.instances import FAMILIES, PLAIN, SEEDS, cluster_of, instance, node_classes
from benchmarks.placement.joint.optima import COMMAND, known_optima
from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.order import admit_all
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.placement.sizing import Sizing
from kwiken.allocator.workloads.profile import Estimate, Size, WorkloadProfile
from kwiken.allocator.workloads.sources import SOURCES
from kwiken.allocator.workloads.workload import Measure, Spread, Target, Workload
from kwiken.base.arrays import Floats
from kwiken.model.nodes.nodes import Cluster, Node
from papers.worlds.schedulers.names import SCHEDULERS, scheduler

NODES = 10_000
ZONES = (3, 20, 100)
SORTS = 10
DEFAULT = "thrifty"
TOO_SLOW = "exact"  # on many nodes
FULL = (0.5, 0.95)  # shares of all cores that are drawn
NEEDED = (2.5, 12.0)  # number of the largest replicas that a workload needs, about
MAX_FILLING = 12_000  # workloads that fill a cluster; some find no room
ARRIVAL_NODES = 1000
MIN_ARRIVALS_PER_S = 1000.0
TARGET_MEAN, TARGET_P90 = 5.0, 15.0  # %, over the joint optimum, of the default scheduler
GREEDY = ("quasar", "thrifty", "exact", "paragon", "least-loaded", "reservation")


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rows = _speed(3 if quick else 11)
    _say("arrivals and memory")
    rows += [_arrivals(300 if quick else 3000), _memory()]
    return [*rows, *_gaps(2 if quick else len(SEEDS))]


def _say(what: str) -> None:
    print(f"place: {what}", file=sys.stderr, flush=True)


def cluster(nodes: int, rng: np.random.Generator, zones: int = 3) -> Cluster:
    """Nodes of four classes in equal parts on average, in some zones."""
    classes = node_classes(PLAIN)
    drawn = rng.integers(len(classes), size=nodes)
    return Cluster(
        classes,
        tuple(Node(f"n{n}", f"class-{kind}", f"zone-{n % zones}") for n, kind in enumerate(drawn.tolist())),
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
    """One placement beside ten stable sorts of a float a node: the default always, the others at worst.

    The cases differ in how full the cluster is, in how many of the largest replicas are needed, and in what
    no two replicas may share. With three zones, the twelve replicas of one case cannot all be placed. With
    more zones, the default is measured alone, where no two replicas may share a zone.
    """
    pairs: dict[str, dict[str, list[tuple[float, float]]]] = {name: {} for name in SCHEDULERS}
    del pairs[TOO_SLOW]
    for full, zones in itertools.product(FULL, ZONES):
        rng = np.random.default_rng(0)
        found = cluster(NODES, rng, zones)
        ledger = _filled(found, full, rng)
        numbers = rng.random(NODES)
        for replicas in NEEDED:
            for spread in Spread if zones == ZONES[0] else (Spread.ZONE,):
                pair = workload(0, replicas, np.random.default_rng(1), deviation=0.05)
                wanted = request_for(
                    msgspec.structs.replace(pair[0], spread=spread), pair[1], found, Caution()
                )
                case = f"{full:.0%} full, {replicas:g} largest replicas, spread {spread.value}"
                case += f" of {zones}" if spread is Spread.ZONE else ""
                _say(f"one placement on {NODES} nodes, {case}")
                for name, by_case in pairs.items() if zones == ZONES[0] else ((DEFAULT, pairs[DEFAULT]),):
                    by_case[case] = _timed_pairs(name, wanted, ledger, numbers, rounds)
    rows = []
    for name, by_case in pairs.items():
        worst = min(by_case, key=lambda case: np.median([sorts / ours for ours, sorts in by_case[case]]))
        for case in by_case if name == DEFAULT else (worst,):
            what = case if name == DEFAULT else f"worst case: {case}"
            rows.append(
                paired(
                    f"one placement on {NODES} nodes, {name}, {what}",
                    f"{SORTS} stable sorts of {NODES} floats",
                    by_case[case],
                    unit="ms",
                    least=1.0 if name == DEFAULT else None,
                )
            )
    return rows


def _timed_pairs(
    name: str, wanted: PlacementRequest, ledger: NodeLedger, numbers: Floats, rounds: int
) -> list[tuple[float, float]]:
    """Milliseconds of one placement, which is taken back, and of the sorts, in turn."""
    chosen = scheduler(name)

    def place() -> None:
        sizing = Sizing(wanted, ledger)
        chosen.place(sizing)
        sizing.clear()

    def sorts() -> None:
        for _ in range(SORTS):
            np.sort(numbers, kind="stable")  # as fast on all machines; the default is not

    timed(place), timed(sorts)  # as a warm-up
    return [(1e3 * timed(place), 1e3 * timed(sorts)) for _ in range(rounds)]


def _filled(found: Cluster, share: float, rng: np.random.Generator) -> NodeLedger:
    """Ledger of which workloads draw a share of all cores."""
    ledger, filler = NodeLedger(found), scheduler("least-loaded")
    requests = _requests(200, found, rng, Caution())
    whole, number = float(found.cores.sum()), 0
    while ledger.free_cores.sum() > (1 - share) * whole and number < MAX_FILLING:
        filler.place(Sizing(requests[number % len(requests)], ledger))
        number += 1
    return ledger


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
    """Cost over the joint optimum, by family, where all targets are met. Predictions are exact.

    Where the optimum is not proven, the cost that no placement is below stands for it, so that the gap is
    told as larger than it is.
    """
    optima = known_optima()
    drawn = [(family, seed) for seed in list(SEEDS)[:cases] for family in FAMILIES]
    wanted = [key for key in drawn if key in optima]
    if len(wanted) < len(drawn):
        _say(f"{len(drawn) - len(wanted)} instances have no known optimum and are left out: run `{COMMAND}`")
    calls = (delayed(_gap)(family, seed, optima[family, seed].bound) for family, seed in wanted)
    found = []
    for number, one in enumerate(Parallel(n_jobs=-1, return_as="generator_unordered")(calls), 1):
        found.append(one)
        if number % len(FAMILIES) == 0:
            _say(f"{number} of {len(wanted)} instances placed by every scheduler")
    rows = []
    for family in FAMILIES:
        known = [optima[key] for key in wanted if key[0] == family]
        possible = [one for one in known if np.isfinite(one.bound)]
        proven = sum(one.proven for one in possible)
        what = f"of {len(possible)} that are possible, of {len(known)} of {cases} that were searched"
        rows.append(
            Row(name=f"joint optima that are proven, {family}, {what}", ours=proven, unit="instances")
        )
        for name in GREEDY:
            gaps = [gap[name] for of, gap in found if of == family and name in gap]
            over = [gap for gap in gaps if gap is not None]
            target = (TARGET_MEAN, TARGET_P90) if name == DEFAULT else (None, None)
            label = f"{name}, {family} ({len(over)} of {len(gaps)} instances with all targets met)"
            if gaps and not over:
                rows.append(Row(name=f"instances with all targets met, {label}", ours=0, unit="instances"))
            figures = (("mean", np.mean(over)), ("p90", np.percentile(over, 90))) if over else ()
            for (words, value), most in zip(figures, target, strict=False):
                line = f"cost over the joint optimum, {words}, {label}"
                rows.append(Row(name=line, ours=float(value), unit="%", target=most))
    return rows


def _gap(family: str, seed: int, least: float) -> tuple[str, dict[str, float | None]]:
    """By scheduler: cost over the least one, %; None where a target is missed; empty without an optimum."""
    requests, found = instance(FAMILIES[family], seed), cluster_of(FAMILIES[family], seed)
    over: dict[str, float | None] = {}
    for name in GREEDY if np.isfinite(least) and least > 0 else ():
        admissions = admit_all(requests, NodeLedger(found), scheduler(name, seed=seed))
        cost = sum(one.sizing.cost for one in admissions)
        kept = all(one.sizing.forecast().met for one in admissions)
        over[name] = 100 * (cost / least - 1) if kept else None
    return family, over
