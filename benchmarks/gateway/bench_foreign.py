"""Benchmark of a plan in front of foreign services: one of two replicas of each is paused in bursts.

An HTTP service and a gRPC service, both written without kwiken (`examples/foreign`), run with two replicas
each. Their requests are recorded under pauses, a plan with 5% of extra work is made of the records, and then
load without the plan and with it takes turns, under the same pauses each time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.gateway.foreign_shop import INVENTORY, PRICES
from benchmarks.gateway.open_load import open_load
from benchmarks.harness import Row, paired
from kwiken.apps.demo.faults.disturb import DisturbedStage, Disturber
from kwiken.apps.demo.faults.pauser import PausedProcess
from kwiken.model.plan.plan import Budgets, Plan
from kwiken.otel.fit.fit import fit_profile
from kwiken.runtime.cluster.cluster import Cluster
from kwiken.runtime.cluster.settings import ClusterSettings
from kwiken.tail.planning.planner import study_plan
from kwiken.tail.planning.study import PlanSettings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "foreign"
BODY = b'{"sku": "tea"}'
RATE_PER_S = 25.0
BUDGET = 0.05
PAUSED_SHARE = 0.08  # of the time, in which one replica of a service is paused
START_S = 20.0
ALL_S = 60.0  # longest time for which the gateway may still write spans


def run(quick: bool) -> list[Row]:  # noqa: FBT001 - every benchmark is called alike
    record_s, arm_s, rounds = (10.0, 5.0, 1) if quick else (80.0, 30.0, 4)
    rows: list[Row] = uvloop.run(_measure(record_s, arm_s, rounds))
    return rows


async def _measure(record_s: float, arm_s: float, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        traces = Path(folder) / "traces"
        async with foreign_services() as paused, _cluster(traces) as cluster:
            async with Disturber(paused, seed=1):
                await open_load(cluster.gateway_url, "/v1/request", BODY, rate=RATE_PER_S, seconds=record_s)
            plan = await _plan_of(traces)
            pairs, spends = [], []
            for turn in range(rounds):
                figures = []
                for each in (None, plan):
                    await cluster.put_plan(each)
                    async with Disturber(paused, seed=2 + turn):
                        latencies = await open_load(
                            cluster.gateway_url, "/v1/request", BODY, rate=RATE_PER_S, seconds=arm_s
                        )
                    figures.append(_p99_ms(latencies))
                pairs.append((figures[1], figures[0]))
                spends.append((await cluster.status())["runtime"]["ledger"])
    return _rows(pairs, spends[-1], plan)


def _rows(pairs: list[tuple[float, float]], ledger: dict[str, Any], plan: Plan) -> list[Row]:
    assert plan.expected is not None
    before, after = plan.expected.before.p99_ms, plan.expected.after.p99_ms
    cut = statistics.median(1 - ours / theirs for ours, theirs in pairs)
    name = "HTTP and gRPC services written without kwiken, a replica of each paused in bursts"
    return [
        paired(f"{name}: p99", "without a plan", pairs, unit="ms"),
        Row(
            name=f"{name}: cut of p99",
            ours=100 * cut,
            unit="%",
            alternative="as the plan expects",
            theirs=100 * (1 - after / before),
        ),
        Row(
            name=f"{name}: extra work over the hour",
            ours=100 * ledger["horizon_share"],
            unit="% of the work",
            target=100 * plan.budgets.reissue,
        ),
        Row(
            name=f"{name}: extra work of the worst 10 s",
            ours=100 * (ledger["worst_10s"] or 0.0),
            unit="% of the work",
            target=100 * ledger["peak"],
        ),
        Row(
            name=f"{name}: copies denied because this machine is busy",
            ours=float(ledger["denied_by"]["load"]),
            unit="copies",
        ),
    ]


def _p99_ms(latencies: list[float]) -> float:
    return sorted(latencies)[int(0.99 * len(latencies))] * 1e3


async def _plan_of(traces: Path) -> Plan:
    """Plan made of the requests that were recorded; waits until the gateway has written all of them."""
    size, deadline = -1, time.monotonic() + ALL_S
    while time.monotonic() < deadline:
        now = await asyncio.to_thread(_size_of, traces)
        if now == size:
            break
        size = now
        await asyncio.sleep(1.5)
    profile = fit_profile([traces])
    settings = PlanSettings(budgets=Budgets(reissue=BUDGET), created="2026-01-01T00:00:00Z")
    return study_plan(profile, settings).plan


def _size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@contextlib.asynccontextmanager
async def _cluster(traces: Path) -> AsyncIterator[Cluster]:
    async with Cluster(
        "benchmarks.gateway.foreign_shop:shop", ClusterSettings(traces=str(traces))
    ) as cluster:
        yield cluster


@contextlib.asynccontextmanager
async def foreign_services() -> AsyncIterator[dict[str, DisturbedStage]]:
    """Two replicas of either service, with their addresses in the environment; gives what may be paused."""
    async with contextlib.AsyncExitStack() as stack:
        found = {}
        for stage, script, variable in (
            ("price", "prices.py", PRICES),
            ("stock", "inventory.py", INVENTORY),
        ):
            ports = [_free_port() for _ in range(2)]
            pids = [await stack.enter_async_context(_process(script, port)) for port in ports]
            places = [f"127.0.0.1:{port}" for port in ports]
            os.environ[variable] = ",".join(places)
            stack.callback(os.environ.pop, variable)
            names = dict(zip(pids, places, strict=True))
            found[stage] = DisturbedStage(PausedProcess(stage, pids, PAUSED_SHARE), names)
        yield found


@contextlib.asynccontextmanager
async def _process(script: str, port: int) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(sys.executable, EXAMPLES / script, "--port", str(port))
    try:
        await _until(lambda: _listens(port))
        yield process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(START_S):
        while not condition():  # noqa: ASYNC110 - another process fulfils it
            await asyncio.sleep(0.05)


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
