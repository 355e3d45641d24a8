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
DASK = "Dask's own scheduling"


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
        Row(
            "MB across racks",
            plan.crossing_mb,
            "MB",
            MAX_BYTES * own.crossing_mb,
            theirs=own.crossing_mb,
            alternative=DASK,
        ),
        Row("makespan", plan.makespan_s, "s", theirs=own.makespan_s, alternative=DASK),
        Row("jobs that ended when a rack stopped", found.lost.ended, "", met=found.lost.ended == found.jobs),
    ]
    if found.alone.p99_ms is not None and plan.p99_ms is not None:
        name, target = "the service's p99 beside the jobs", MAX_P99 * found.alone.p99_ms
        rows.append(Row(name, plan.p99_ms, "ms", target, alternative=DASK, theirs=own.p99_ms))
    return rows


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
