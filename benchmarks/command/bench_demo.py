"""Benchmark of the demo: alone, beside other work, on one core, and at a quarter of the speed.

Each condition runs the whole demo several times, one after the other, and each run chooses its rate itself. A
run that ends without a result, because the machine was too slow or too busy to tell anything, is counted as
such; it is no failure, but a result from an overload would be one. Takes some hours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.harness import Row
from kwiken.apps.report.model.result import DemoResult
from kwiken.runtime.node_classes.limit import Limit
from kwiken.runtime.node_classes.node_limits import NodeLimits

RUNS = 5
NO_RESULT = 3  # exit code of a demo that tells nothing
TARGET_CUT = 0.30
TARGET_ERROR = 0.30
MORE_WORK = "processor time of replicas a request, with the plan above that without"
BURN = "while True: pass"


@dataclass(frozen=True)
class Condition:
    """Machine that a run gets.

    Attributes:
        name: name in the results.
        processors: numbers of the processors that the run may use; None for all.
        share: share of all processors' time that the run may use; None for all of it.
        burning: number of processes beside the run that never wait.
    """

    name: str
    processors: frozenset[int] | None = None
    share: float | None = None
    burning: int = 0


CONDITIONS = (
    Condition("alone"),
    Condition("beside a process that burns one core", burning=1),
    Condition("on one core", processors=frozenset({0})),
    Condition("at a quarter of the speed", share=0.25),
)


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    rows = []
    for condition in CONDITIONS:
        results = [_demo(condition, seed=number) for number in range(1 if quick else RUNS)]
        rows += _rows(condition.name, results)
    return rows


def _demo(condition: Condition, *, seed: int) -> DemoResult | None:
    """One run of the demo; None if it told nothing."""
    with tempfile.TemporaryDirectory() as folder, _burning(condition.burning):
        command = [sys.executable, "-m", "kwiken", "demo", "--out", folder, "--seed", str(seed)]
        code = asyncio.run(_limited(command, condition))
        if code == NO_RESULT:
            return None
        if code != 0:
            raise RuntimeError(f"the demo ended with exit code {code}")
        return msgspec.json.decode((Path(folder) / "demo.json").read_bytes(), type=DemoResult)


async def _limited(command: Sequence[str], condition: Condition) -> int:
    cores = len(os.sched_getaffinity(0)) * (condition.share or 1.0)
    limit = Limit(cores, processors=condition.processors)
    async with NodeLimits() as limits:
        process = await limits.start(command, name="demo", limit=limit, stdout=subprocess.DEVNULL)
        return await process.wait()


@contextlib.contextmanager
def _burning(count: int) -> Iterator[None]:
    burning = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def _rows(name: str, results: Sequence[DemoResult | None]) -> list[Row]:
    told = [result for result in results if result is not None]
    silent = Row(name=f"{name}: runs without a result", ours=float(len(results) - len(told)), unit="runs")
    if not told:
        return [silent]
    cuts = [100 * result.cut_p99["after"].cut for result in told]
    even = [100 * result.cut_p99["even"].cut for result in told]
    p95 = [100 * (1 - result.p95.p99_ms / result.before.p99_ms) for result in told]
    works = [(_work(result, "before"), _work(result, "after")) for result in told]
    more_work = [100 * (after / before - 1) for before, after in works if before and after]
    ninetieth = [100 * (result.after.p90_ms / result.before.p90_ms - 1) for result in told]
    errors = [100 * (result.achieved.p99_ms / result.expected.p99_ms - 1) for result in told]
    meanwhile = [
        100 * (result.achieved.p99_ms / result.meanwhile.after.p99_ms - 1)
        for result in told
        if result.meanwhile is not None
    ]
    worst = [100 * result.spent.reissue_worst_10s / (result.peak or 1.0) for result in told]
    failed = sum(result.failed for result in told)
    middle = statistics.median
    return [
        silent,
        _row(f"{name}: rate", [result.settings.rate for result in told], "requests/s"),
        _row(f"{name}: cut of p99", cuts, "%", target=100 * TARGET_CUT, met=middle(cuts) >= 100 * TARGET_CUT),
        _row(f"{name}: cut of p99, even spread", even, "%"),
        _row(f"{name}: cut of p99, a copy at p95 of every stage", p95, "%"),
        _row(f"{name}: p90 with the plan above that without", ninetieth, "%"),
        *([_row(f"{name}: {MORE_WORK}", more_work, "%")] if more_work else []),
        _row(
            f"{name}: achieved p99 above the expected one",
            errors,
            "%",
            target=100 * TARGET_ERROR,
            met=middle([abs(error) for error in errors]) <= 100 * TARGET_ERROR,
        ),
        *(
            [_row(f"{name}: achieved p99 above that expected in the same minutes", meanwhile, "%")]
            if meanwhile
            else []
        ),
        _row(f"{name}: spent", [100 * result.spent.reissue for result in told], "%"),
        _row(f"{name}: spend expected", [100 * result.expectation.spent for result in told], "%"),
        _row(f"{name}: worst 10 s, of what is allowed", worst, "%", target=100.0, met=max(worst) <= 100.0),
        Row(name=f"{name}: requests that failed", ours=float(failed), unit="requests", target=0.0),
    ]


def _work(result: DemoResult, arm: str) -> float | None:
    """Processor time of the replicas for a request of an arm, in any unit; None if it was not measured."""
    measured = result.arms[arm]
    if measured.replica_cpu is None:
        return None
    return measured.replica_cpu * measured.seconds / measured.requests


def _row(
    name: str, values: Sequence[float], unit: str, *, target: float | None = None, met: bool | None = None
) -> Row:
    return Row(
        name=name,
        ours=statistics.median(values),
        unit=unit,
        target=target,
        met=met,
        spread=(min(values), max(values)),
    )
