"""Client of one run: sends requests when they are due, whatever became of earlier ones, and prints figures.

Settings come as JSON on stdin. Usage: `python -m benchmarks.gateway.peers.client`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.gateway.peers.senders import Send, by_gateway, by_grpc, by_grpc_gateway, by_stages
from benchmarks.gateway.peers.world import RATE_PER_S, TIMEOUT_S, WARM_S

FINISH_S = TIMEOUT_S + 2.0  # for requests without an answer at the end
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def sender(found: Mapping[str, Any]) -> AbstractAsyncContextManager[Send]:
    """How a way's requests are sent."""
    way = found["way"]
    if way.startswith("kwiken gateway"):
        return by_grpc_gateway(found) if way.endswith("gRPC") else by_gateway(found)
    return by_grpc(way, found) if "gRPC" in way else by_stages(way, found)


def processor_s(pids: list[int]) -> float:
    """Processor time of this process and some others so far, seconds."""
    took = time.process_time()
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        took += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return took


async def load(found: Mapping[str, Any]) -> dict[str, Any]:
    """Send the load of the warm-up, then that of the measured part; returns the latter's figures."""
    rng = random.Random(found["seed"])
    latency_ms: list[float] = []
    calls_ms: list[Mapping[str, float]] = []
    lost = 0
    running: set[asyncio.Task[None]] = set()

    async def ask(number: int, due: float, send: Send) -> None:
        nonlocal lost
        try:
            async with asyncio.timeout(TIMEOUT_S):
                took = await send(number)
        except Exception:  # noqa: BLE001 - whatever a peer raises, the request is lost
            lost += number >= 0
            return
        if number >= 0:
            latency_ms.append(1e3 * (time.perf_counter() - due))
            calls_ms.append(took)

    async with sender(found) as send:
        start = due = time.perf_counter()
        measured, spent = 0, 0.0
        for number in range(-(1 << 30), 1 << 30):
            due += rng.expovariate(RATE_PER_S)
            if due - start >= WARM_S + found["seconds"]:
                break
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            counted = due - start >= WARM_S
            if counted and not measured:
                spent = processor_s(found["pids"])
            task = asyncio.create_task(ask(measured if counted else number, due, send))
            measured += counted
            running.add(task)
            task.add_done_callback(running.discard)
        if running:
            await asyncio.wait(running, timeout=FINISH_S)
        spent = processor_s(found["pids"]) - spent
    return {
        "latency_ms": latency_ms,
        "lost": lost,
        "sent": measured,
        "processor_s": spent,
        "calls_ms": [took for took in calls_ms if took],
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(load(json.load(sys.stdin)))))
