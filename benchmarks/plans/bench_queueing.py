"""Benchmark of the queue simulator: request-stages a second of one core, with and without copies.

A request-stage is one request at one stage; at a fan-out every call counts as one.
The target is 10 million a minute.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

import numpy as np

from benchmarks.harness import Row, timed
from kwiken.model.plan.ledger_terms import LedgerTerms
from kwiken.model.service.stage import Reissue
from kwiken.tail.queueing.simulator.network import poisson_arrivals, simulate_queues
from kwiken.tail.queueing.simulator.service_times import LogNormal
from kwiken.tail.queueing.simulator.station import Dispatch, Earnings, Station

STAGES = 10
TARGET = 10e6 / 60
WORK = LogNormal(10.0, 1.0)
UTILISATION = 0.6
EARNINGS = Earnings(bounds=LedgerTerms().stage_bounds(Reissue(after_ms=60.0, fraction=0.065)))


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    requests = 10_000 if quick else 40_000
    rounds = 2 if quick else 3
    rare, many = Reissue(after_ms=60.0), Reissue(after_ms=30.0)
    cases: list[tuple[str, Dispatch, Reissue | None, int]] = [
        ("random replica, no copies", "random", None, 1),
        ("two choices, no copies", "two", None, 1),
        ("age-aware choice, no copies", "aged", None, 1),
        ("age-aware choice, fan-out of 8", "aged", None, 8),
        ("age-aware choice, rare copies", "aged", rare, 1),
        ("age-aware choice, many copies", "aged", many, 1),
    ]
    return [
        _row(
            f"{STAGES} stages x {requests // fanout} requests, {name}",
            _chain(dispatch, reissue, fanout),
            requests // fanout,
            rounds,
        )
        for name, dispatch, reissue, fanout in cases
    ]


def _chain(dispatch: Dispatch, reissue: Reissue | None, fanout: int) -> list[Station]:
    station = Station(
        name="0",
        work=WORK,
        rest=LogNormal(5.0, 1.0),
        replicas=4,
        dispatch=dispatch,
        fanout=fanout,
        reissue=reissue,
        earnings=EARNINGS if reissue is not None else None,
        cancel="queued",
    )
    later = [replace(station, name=str(i), after=(str(i - 1),)) for i in range(1, STAGES)]
    return [station, *later]


def _row(name: str, chain: list[Station], requests: int, rounds: int) -> Row:
    arrivals = poisson_arrivals(chain[0].visits_per_s(UTILISATION), requests, np.random.default_rng(0))
    copies: list[float] = []

    def once() -> None:
        found = simulate_queues(chain, arrivals, rng=np.random.default_rng(1))
        copies[:] = [stage.fraction for stage in found.stages.values()]

    timed(once)
    stages = requests * sum(station.fanout for station in chain)
    rates = [stages / timed(once) for _ in range(rounds)]
    mean = statistics.fmean(copies)
    ours = statistics.median(rates)
    return Row(
        name=f"{name} ({mean:.1%} of calls)" if mean else name,
        ours=ours,
        unit="request-stages/s",
        target=TARGET,
        met=ours >= TARGET,
        spread=(min(rates), max(rates)),
    )
