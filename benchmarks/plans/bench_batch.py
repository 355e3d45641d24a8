"""Benchmark of batch jobs: error of predictions, what intervals hold, tuples in one call, time of reading."""

from __future__ import annotations

import json

import numpy as np

from benchmarks.harness import Row, side_by_side
from kwiken.batch.jobs.job import BatchJob
from kwiken.batch.jobs.logs.reading import read_log
from kwiken.batch.jobs.replay.calibration import conformal_width, width_needed
from kwiken.batch.jobs.replay.choice import baselines_at
from kwiken.batch.jobs.replay.predictor import Predictor
from papers.mrcute.formulas import (
    MapReduceJob,
    MapReduceProfile,
    SlotsOfMachine,
    reserved_times,
)
from papers.worlds.queries.event_lines import event_log
from papers.worlds.queries.world import SimulatedQuery, draw_query, run_query

# Of the queries; what was tried out used seeds below 1,000. Queries from 52,000 were predicted before stages
# were served in the engine's order, queries from 53,000 with intervals that held too many, and queries from
# 54,000 and 55,000 with one width for all distances, and for all known sizes.
FIRST_SEED = 56_000
TRIAL_SEED = 903  # of the queries by which the widths of intervals were set
TRIAL_QUERIES = 120
SMALL, LARGE = 10, 40  # executors of the known runs
FAR = 10  # times a known size
SLOTS = 1
AGAIN = 100_000  # added to a query's seed for another run of it
MAX_ERROR_ONE, MAX_ERROR_TWO = 0.06, 0.10
COVERED = (0.85, 0.95)
TUPLES, LOOPED = 10_000, 100
READ_QUERIES = 40  # whose event logs are read


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    return [
        *predictions(4 if quick else 200),
        *widths(12 if quick else TRIAL_QUERIES),
        *tuples(2 if quick else 9),
        *reading(2 if quick else 9),
    ]


def ran(query: SimulatedQuery, executors: int, seed: int, first: int = FIRST_SEED) -> BatchJob:
    """Run a query, write its event log, and read it as a user's log is read."""
    rng = np.random.default_rng([first, seed, executors])
    found = read_log(
        event_log(run_query(query, executors, SLOTS, rng), f"app-{seed}"), name="log", where="log"
    )
    assert found is not None
    return found.jobs[0]


def predictions(queries: int) -> list[Row]:
    """Errors at twice the executors of one run, and at twice the larger of two, over fresh queries."""
    errors: dict[tuple[str, str], list[float]] = {}
    held: dict[str, list[bool]] = {}
    for seed in range(queries):
        query = draw_query(f"query {seed}", np.random.default_rng([FIRST_SEED, seed]))
        small, large = ran(query, SMALL, seed), ran(query, LARGE, seed)
        for case, known, n in (("one run", [small], SMALL), ("two runs", [small, large], LARGE)):
            again = Predictor(known).at(n)
            took_ms = ran(query, n, seed + AGAIN).took_ms
            held.setdefault(f"{case}, at its size", []).append(again.low_ms <= took_ms <= again.high_ms)
        for case, known, n in (
            ("one run, at ten times", [small], FAR * SMALL),
            ("two runs, at ten times", [small, large], FAR * LARGE),
        ):
            found = Predictor(known).at(n)
            took_ms = ran(query, n, seed + AGAIN).took_ms
            held.setdefault(case, []).append(found.low_ms <= took_ms <= found.high_ms)
        for case, known, n in (("one run", [small], 2 * SMALL), ("two runs", [small, large], 2 * LARGE)):
            actual = ran(query, n, seed).took_ms
            predictor = Predictor(known)
            predicted = predictor.at(n)
            rules = {name: values[0] for name, values in baselines_at(predictor, [n]).items()}
            rules["replay"] = predicted.total_ms
            for name, value in rules.items():
                errors.setdefault((case, name), []).append(abs(value - actual) / actual)
            held.setdefault(case, []).append(predicted.low_ms <= actual <= predicted.high_ms)
    rows = []
    for case, target in (("one run", MAX_ERROR_ONE), ("two runs", MAX_ERROR_TWO)):
        ours = 100 * float(np.mean(errors[case, "replay"]))
        for name in ("waves", "ernest", "constant"):
            if (case, name) in errors:
                theirs = 100 * float(np.mean(errors[case, name]))
                rows.append(
                    Row(
                        name=f"mean error at twice the executors, from {case}, {queries} queries",
                        ours=ours,
                        unit="%",
                        target=100 * target,
                        alternative=name,
                        theirs=theirs,
                        ratio=theirs / ours,
                    )
                )
    for case, inside in held.items():
        share = float(np.mean(inside))
        rows.append(
            Row(
                name=f"share of runs within the interval of 90%, from {case}",
                ours=100 * share,
                unit="%",
                target=90,
                met=COVERED[0] <= share <= COVERED[1],
            )
        )
    return rows


def widths(queries: int) -> list[Row]:
    """Share of the intervals' widths that nine of ten trial queries need; 1 means that they fit."""
    needed: dict[str, list[float]] = {}
    for seed in range(queries):
        query = draw_query(f"query {seed}", np.random.default_rng([TRIAL_SEED, seed]))
        small, large = (ran(query, n, seed, TRIAL_SEED) for n in (SMALL, LARGE))
        for case, known, places in (
            ("one run, at its size", [small], (SMALL,)),
            ("one run, at others", [small], (SMALL // 2, 2 * SMALL, 4 * SMALL)),
            ("two runs, at the smaller", [small, large], (SMALL,)),
            ("two runs, at the larger", [small, large], (LARGE,)),
            ("two runs, between", [small, large], (2 * SMALL,)),
            ("two runs, beyond", [small, large], (2 * LARGE, 4 * LARGE)),
        ):
            predictor = Predictor(known)
            for n in places:
                actual = ran(query, n, seed + AGAIN, TRIAL_SEED).took_ms
                needed.setdefault(case, []).append(width_needed(predictor.at(n), actual))
    return [
        Row(
            name=f"width of the intervals that {queries} trial queries need, from {case}",
            ours=conformal_width(shares) or 0.0,
            unit="of it",
        )
        for case, shares in needed.items()
    ]


def tuples(rounds: int) -> list[Row]:
    """10,000 tuples in one call beside 100 in a loop."""
    job = MapReduceJob(
        input_bytes=1.6e6,
        n_map=1600,
        n_reduce=40,
        profile=MapReduceProfile(s_map=1, s_reduce=1, b_map=200, b_reduce=400, b_disk=250),
    )
    slots = SlotsOfMachine(map_slots=8, reduce_slots=2)
    machines, bandwidth = np.meshgrid(np.arange(1, 101), np.linspace(10, 1000, TUPLES // 100))
    flat = machines.ravel(), bandwidth.ravel()

    def in_one_call() -> object:
        return reserved_times(job, slots, *flat).total

    def in_a_loop() -> object:
        return [
            reserved_times(job, slots, int(n), float(b)).total[0]
            for n, b in zip(flat[0][:LOOPED], flat[1][:LOOPED], strict=True)
        ]

    return [
        side_by_side(
            f"{TUPLES} tuples of machines and bandwidth in one call",
            in_one_call,
            (f"{LOOPED} tuples in a Python loop", in_a_loop),
            rounds=rounds,
            unit="ms",
            scale=1000,
        )
    ]


def reading(rounds: int) -> list[Row]:
    """Time of reading event logs of a few large queries, beside a plain parse of the same lines."""
    lines: list[bytes] = []
    for seed in range(READ_QUERIES):
        query = draw_query(f"query {seed}", np.random.default_rng([FIRST_SEED, seed]))
        run = run_query(query, LARGE, SLOTS, np.random.default_rng([FIRST_SEED, seed, LARGE]))
        lines += event_log(run, f"app-{seed}")

    def parse() -> object:
        return [json.loads(line) for line in lines]

    return [
        side_by_side(
            f"read {len(lines)} lines of event logs",
            lambda: read_log(lines, name="log", where="log"),
            ("json.loads of each line", parse),
            rounds=rounds,
            unit="ms",
            scale=1000,
        )
    ]
