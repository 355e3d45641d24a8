"""Benchmark of a plan of racks on a real Dask, beside a service: three ways, then a rack that stops.

It takes four minutes. Racks are network namespaces whose uplinks are limited, if this process may make them.
The log of all processes and the plan stand in `racks-live-out/`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from benchmarks.harness import Row
from benchmarks.plans.racks_live.live_run import run_racks_live
from benchmarks.plans.racks_live.outcome import MAX_BYTES, MAX_P99, verdict

OUT = Path("racks-live-out")
SEED = 0


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    del quick  # one run is the least there is
    OUT.mkdir(exist_ok=True)
    log = (OUT / "processes.log").absolute()
    log.write_bytes(b"")
    found = asyncio.run(run_racks_live(seed=SEED, say=_say, log=log))
    for line in verdict(found)[1]:
        _say(line)
    own, plan = found.arms[0], found.arms[-1]
    rows = [
        _row("MB across racks", "MB", plan.crossing_mb, own.crossing_mb, MAX_BYTES * own.crossing_mb),
        _row("makespan", "s", plan.makespan_s, own.makespan_s, None),
        Row(
            name="jobs that ended when a rack stopped",
            ours=found.lost.ended,
            unit="jobs",
            met=found.lost.ended == found.jobs,
        ),
    ]
    alone = found.alone.p99_ms
    if alone is not None and plan.p99_ms is not None:
        rows.append(_row("the service's p99 beside the jobs", "ms", plan.p99_ms, own.p99_ms, MAX_P99 * alone))
    return rows


def _row(name: str, unit: str, ours: float, theirs: float | None, target: float | None) -> Row:
    alternative = "Dask's own scheduling"
    return Row(name=name, ours=ours, unit=unit, target=target, alternative=alternative, theirs=theirs)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
