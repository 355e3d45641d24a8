"""One gateway of the live comparison: a picker with a rule, calls over TCP, answers as JSON on stdout.

Usage: `python -m benchmarks.choice.live_gateway RULE SEED RATE SECONDS PORT...`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time

from benchmarks.choice.bench_replica_choice import RULES
from kwiken.runtime.decisions.choice.picker import Picker
from kwiken.runtime.wire.transport.base import Replica, Reply

FINISH_S = 10.0  # that calls without an answer get at the end


async def gateway(rule: str, seed: int, rate_per_s: float, seconds: float, ports: list[int]) -> None:
    """Send open-loop calls for some seconds and print latencies and replicas."""
    rng = random.Random(seed)
    replicas = [
        Replica(id=str(place), node=str(place), address=str(port)) for place, port in enumerate(ports)
    ]
    picker = Picker(replicas, random.Random(seed + 1), RULES[rule](1))
    calls: list[tuple[float, float, int]] = []
    choosing = 0.0
    running: set[asyncio.Task[None]] = set()

    async def call(due: float) -> None:
        nonlocal choosing
        began = time.perf_counter()
        target = picker.pick(began)
        choosing += time.perf_counter() - began
        assert target is not None
        ticket = target.take(began)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(target.replica.address))
            writer.write(b"\n")
            inflight = int(await reader.readline())
            writer.close()
        except (OSError, ValueError):
            picker.failed(target, ticket, time.perf_counter())
            return
        now = time.perf_counter()
        picker.answered(target, ticket, now, Reply(value=None, inflight=inflight))
        calls.append((due - start, now - due, int(target.replica.id)))

    start = due = time.perf_counter()
    while due - start < seconds:
        due += rng.expovariate(rate_per_s)
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        task = asyncio.create_task(call(due))
        running.add(task)
        task.add_done_callback(running.discard)
    if running:
        await asyncio.wait(running, timeout=FINISH_S)
    print(json.dumps({"calls": calls, "choosing_us": 1e6 * choosing / max(len(calls), 1)}))


if __name__ == "__main__":
    chosen, seed_, rate_, seconds_, *ports_ = sys.argv[1:]
    asyncio.run(gateway(chosen, int(seed_), float(rate_), float(seconds_), [int(port) for port in ports_]))
