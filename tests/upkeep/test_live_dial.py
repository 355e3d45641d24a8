"""The dial under requests that really are late: nodes are packed, work on them grows, and the dial moves."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from kwiken.allocator.workloads.workload import Spread, Target, Workload
from kwiken.runtime.cluster.cluster import Cluster
from tests.support.allocation.packing.repacked import Running, shorten_windows
from tests.support.runtime.waiting import until

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's"),
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
TARGET_MS = 1500.0
RATE_PER_S = 16.0
SPEED = 0.1  # of a node's two cores: a fifth of a processor
BURNERS = 3
BURNER = "import os, sys, time\nwhile True:\n    os.path.exists(sys.argv[1]) or time.sleep(0.1)"
STAGE = Workload(
    name="front",
    target=Target(p99_ms=TARGET_MS, rate_per_s=RATE_PER_S),
    memory_gb=1.0,
    service="busy",
    stage="work",
    spread=Spread.NODE,
)


@contextlib.asynccontextmanager
async def steady_requests(cluster: Cluster) -> AsyncIterator[list[tuple[float, float]]]:
    """Send requests at a fixed rate; yields moment and latency of each answer, seconds."""
    found: list[tuple[float, float]] = []

    async def one(session: aiohttp.ClientSession) -> None:
        begun = time.monotonic()
        with contextlib.suppress(aiohttp.ClientError):
            async with session.post(cluster.gateway_url + "/v1/request", json={}) as answer:
                await answer.read()
        found.append((time.monotonic(), time.monotonic() - begun))

    async def send() -> None:
        async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
            due = time.monotonic()
            while True:
                group.create_task(one(session))
                due += 1 / RATE_PER_S
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    task = asyncio.create_task(send())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.wait([task])


def p99_ms(found: list[tuple[float, float]], since: float) -> float:
    late = [latency for ended, latency in found if ended >= since]
    return 1e3 * (statistics.quantiles(late, n=100)[-1] if len(late) > 1 else float("nan"))


async def test_late_requests_for_want_of_headroom_turn_the_dial_up_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_windows(monkeypatch)
    monkeypatch.setattr("kwiken.allocator.packing.auto_dial.QUIET_PERIODS", 2)
    monkeypatch.setattr("kwiken.allocator.packing.auto_dial.MIN_REQUESTS", 40)
    flag = tmp_path / "busy"
    command = (sys.executable, "-c", BURNER, str(flag))
    running = Running(4, STAGE, rates={2: 24.0}, dial=None, naps=BURNERS, command=command, speed=SPEED)

    def crowded() -> bool:
        """Whether burners stand beside the stage, beyond the cores of its node."""
        (stage, *_) = (node for _, node, _ in running.adaptation.keys["front"])
        return stage in {node for _, node, _ in running.adaptation.keys["nap"]}

    async with (
        running.up("tests.support.services.busy:service", {}) as cluster,
        steady_requests(cluster) as found,
    ):
        await until(crowded, within_s=200.0)
        packed_s = time.monotonic()
        await asyncio.sleep(6.0)
        before, calm_ms = running.repacking.dial, p99_ms(found, packed_s)
        flag.touch()
        burning_s = time.monotonic()
        await until(lambda: running.repacking.dial > before, within_s=200.0)
        turned_s, burning_ms = time.monotonic(), p99_ms(found, burning_s)
        await until(lambda: not crowded(), within_s=200.0)
        relieved_s = time.monotonic()
        highest = running.repacking.dial
        flag.unlink()
        await until(lambda: running.repacking.dial < highest, within_s=200.0)
        quiet_ms = p99_ms(found, time.monotonic() - 6.0)
    told = [line for line in running.said if "no packing" in line or "dial" in line]
    print(  # noqa: T201 - figures of a live measurement, seen with -s
        f"dial {before:g} while packed (p99 {calm_ms:.0f} ms); {turned_s - burning_s:.1f} s after the work "
        f"grew above {before:g} (p99 {burning_ms:.0f} ms); node relieved after {relieved_s - burning_s:.1f} s; "
        f"dial {highest:g}, then back to {running.repacking.dial:g} (p99 {quiet_ms:.0f} ms)"
    )
    assert burning_ms > TARGET_MS
    assert any("has no headroom" in line for line in running.said)
    assert any("the allowance burns" in line for line in told)
