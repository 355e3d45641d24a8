"""Benchmark of simulated fleets: time of a scenario, arrivals that each scheduler sustains, and memory."""

from __future__ import annotations

import statistics
import time
import tracemalloc

import numpy as np

from benchmarks.harness import Row
from benchmarks.placement.bench_place import cluster, workload
from kwiken.allocator.placement.headroom import Caution
from kwiken.allocator.placement.node_ledger import NodeLedger
from kwiken.allocator.placement.request import PlacementRequest, request_for
from kwiken.allocator.placement.sizing import Sizing
from papers.worlds.fleet.catalogue import SCENARIOS
from papers.worlds.fleet.managers import simulate
from papers.worlds.schedulers.names import SCHEDULERS, scheduler

SCENARIO = "cloud-low"  # 1,000 servers, 2,500 workloads
MANAGERS = ("paragon", "quasar", "least-loaded")
MAX_S = 60.0  # of processor time for the scenario
MIN_ARRIVALS_PER_S = 1000.0
SIZES = (1000, 10_000)  # nodes
TOO_SLOW = "exact"  # for small clusters only
PROFILED = 1000  # workloads whose memory is measured


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rounds = 1 if quick else 3
    rows = [row for name in MANAGERS for row in _scenario(name, rounds)]
    for nodes in SIZES:
        rows += _arrivals(nodes, 100 if quick else 1000, rounds)
    return [*rows, *_memory()]


def _scenario(name: str, rounds: int) -> list[Row]:
    """Processor time of one run, with the draw of the scenario and the predictions."""
    times, rates = [], []
    for seed in range(rounds):
        start = time.process_time()
        found = simulate(SCENARIOS[SCENARIO].draw(seed), name)
        times.append(time.process_time() - start)
        rates.append(found.events / times[-1])
    title = f"2500 workloads on 1000 servers, {name}"
    return [
        Row(
            name=f"{title}, processor time",
            ours=statistics.median(times),
            unit="s",
            target=MAX_S,
            spread=(min(times), max(times)),
        ),
        Row(
            name=f"{title}, events",
            ours=statistics.median(rates),
            unit="/s",
            spread=(min(rates), max(rates)),
        ),
    ]


def _arrivals(nodes: int, count: int, rounds: int) -> list[Row]:
    """Workloads that arrive, each as another one leaves, on a cluster that is a quarter full."""
    rng = np.random.default_rng(1)
    found = cluster(nodes, rng)
    pairs = [workload(n, float(rng.uniform(0.3, 3.0)), rng, deviation=0.05) for n in range(200)]
    requests = [request_for(*pair, found, Caution()) for pair in pairs]
    rows = []
    for name in SCHEDULERS:
        if name != TOO_SLOW:
            rates = [_rate(name, requests, NodeLedger(found), nodes // 8, count) for _ in range(rounds)]
            rate = statistics.median(rates)
            rows.append(
                Row(
                    name=f"arrivals placed, and as many departures, on {nodes} nodes, {name}",
                    ours=rate,
                    unit="/s",
                    target=MIN_ARRIVALS_PER_S,
                    met=rate >= MIN_ARRIVALS_PER_S,
                    spread=(min(rates), max(rates)),
                )
            )
    return rows


def _rate(name: str, requests: list[PlacementRequest], ledger: NodeLedger, present: int, count: int) -> float:
    """Arrivals in a second of processor time, once some workloads are there."""
    chosen, filler = scheduler(name), scheduler("least-loaded")
    there: list[Sizing] = []
    for number in range(present):
        sizing = Sizing(requests[number % len(requests)], ledger)
        filler.place(sizing)
        there.append(sizing)
    start = time.process_time()
    for number in range(count):
        there.pop(0).clear()
        sizing = Sizing(requests[number % len(requests)], ledger)
        chosen.place(sizing)
        there.append(sizing)
    return count / (time.process_time() - start)


def _memory() -> list[Row]:
    """Allocated memory of what a manager keeps, by workload and by node."""
    rng = np.random.default_rng(2)
    found = cluster(SIZES[1], rng)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = [request_for(*workload(n, 1.0, rng, deviation=0.05), found, Caution()) for n in range(PROFILED)]
    by_workload = (tracemalloc.get_traced_memory()[0] - before) / len(kept)
    before = tracemalloc.get_traced_memory()[0]
    ledger = NodeLedger(found)
    by_node = (tracemalloc.get_traced_memory()[0] - before) / len(ledger.free_cores)
    tracemalloc.stop()
    return [
        Row(name="memory of a workload: its predictions as a request", ours=by_workload, unit="bytes"),
        Row(name="memory of a node: its row of the ledger", ours=by_node, unit="bytes"),
    ]
