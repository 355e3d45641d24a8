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
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.gateway.peers.senders import Send, by_gateway, by_grpc, by_grpc_gateway, by_stages
from benchmarks.gateway.peers.world import TIMEOUT_S, WARM_S

FINISH_S = TIMEOUT_S + 2.0  # for requests without an answer at the end
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def sender(found: Mapping[str, Any]) -> AbstractAsyncContextManager[Send]:
    """How a way's requests are sent."""
    way = found["way"]
    if way.startswith("kwiken gateway"):
        return by_grpc_gateway(found) if way.endswith("gRPC") else by_gateway(found)
    return by_grpc(way, found) if "gRPC" in way else by_stages(way, found)


def processor_s(pids: Iterable[int]) -> float:
    """Processor time of some processes and of all that they started, so far, seconds."""
    spent: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        pid = int(stat.parent.name)
        spent[pid] = sum(map(int, fields[11:15])) / TICKS_PER_S  # its own, and of children that ended
        children.setdefault(int(fields[1]), []).append(pid)
    family = list(pids)
    for pid in family:
        family += children.get(pid, [])
    return sum(spent[pid] for pid in family)


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
        measured, own_s, between_s = 0, 0.0, 0.0
        for number in range(-(1 << 30), 1 << 30):
            due += rng.expovariate(found["rate_per_s"])
            if due - start >= WARM_S + found["seconds"]:
                break
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            counted = due - start >= WARM_S
            if counted and not measured:
                own_s, between_s = time.process_time(), processor_s(found["pids"])
            task = asyncio.create_task(ask(measured if counted else number, due, send))
            measured += counted
            running.add(task)
            task.add_done_callback(running.discard)
        if running:
            await asyncio.wait(running, timeout=FINISH_S)
        own_s, between_s = time.process_time() - own_s, processor_s(found["pids"]) - between_s
    return {
        "latency_ms": latency_ms,
        "lost": lost,
        "sent": measured,
        "own_s": own_s,
        "between_s": between_s,
        "calls_ms": [took for took in calls_ms if took],
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(load(json.load(sys.stdin)))))
