"""All replicas of the benchmark, in one process; prints their ports, and at the end what they were asked.

Usage: `python -m benchmarks.gateway.peers.replicas http|grpc SEED`; ends when its stdin is closed. Requests
of the warm-up have numbers below 0 and are not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import grpc
import uvloop
from aiohttp import web
from grpc import aio

from benchmarks.gateway.peers.messages import SERVICE, Numbered
from benchmarks.gateway.peers.world import REPLICAS, STAGES, STALL_S, fails, service_ms, stalls


class FaultyReplica:
    """One replica, whatever its protocol.

    Attributes:
        asked: by number of a request: calls that the replica began to work on.
        failed: calls that it refused.
    """

    def __init__(self, stage: str, number: int, seed: int) -> None:
        self.stage = stage
        self.asked: Counter[int] = Counter()
        self.failed = 0
        self._number = number
        self._seed = seed
        self._rng = random.Random(seed)
        self._going = asyncio.Event()
        self._going.set()

    async def answer(self, request: int) -> bool:
        """Work on a call; returns whether the call succeeds."""
        if fails(self.stage, self._number):
            self.failed += request >= 0
            return False
        if request >= 0:
            self.asked[request] += 1
        await self._going.wait()
        await asyncio.sleep(service_ms(self.stage, self._number, self._rng) / 1000)
        await self._going.wait()
        return True

    async def stall(self) -> None:
        """Stop and go on, for ever."""
        for pause_s in stalls(self.stage, self._number, self._seed):
            await asyncio.sleep(pause_s)
            self._going.clear()
            await asyncio.sleep(STALL_S)
            self._going.set()


@contextlib.asynccontextmanager
async def over_http(replica: FaultyReplica) -> AsyncIterator[int]:
    """Serve `GET /STAGE?id=NUMBER`; yields the port."""

    async def get(request: web.Request) -> web.Response:
        number = int(request.query["id"])
        if not await replica.answer(number):
            return web.json_response({"error": "unavailable"}, status=503)
        return web.json_response({"id": number})

    app = web.Application()
    app.router.add_get(f"/{replica.stage}", get)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def over_grpc(replica: FaultyReplica) -> AsyncIterator[int]:
    """Serve the method of the stage; yields the port."""

    async def call(message: Any, context: Any) -> Any:
        if not await replica.answer(message.id):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "unavailable")
        return message

    method = grpc.unary_unary_rpc_method_handler(
        call, request_deserializer=Numbered.FromString, response_serializer=Numbered.SerializeToString
    )
    server = aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {replica.stage.title(): method}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(None)


async def serve(protocol: str, seed: int) -> None:
    """Serve until stdin is closed."""
    every = [
        FaultyReplica(stage, number, seed * 1000 + 100 * place + number)
        for place, stage in enumerate(STAGES)
        for number in range(REPLICAS)
    ]
    async with contextlib.AsyncExitStack() as stack:
        open_at = over_grpc if protocol == "grpc" else over_http
        ports = [await stack.enter_async_context(open_at(replica)) for replica in every]
        stalling = [asyncio.create_task(replica.stall()) for replica in every]
        print(*ports, flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for task in stalling:
            task.cancel()
        print(json.dumps(counted(every)), flush=True)


def counted(every: list[FaultyReplica]) -> dict[str, int]:
    """Calls in the measured part: those worked on, the least that would have done, and those refused."""
    by_stage: dict[str, Counter[int]] = {stage: Counter() for stage in STAGES}
    for replica in every:
        by_stage[replica.stage] += replica.asked
    return {
        "asked": sum(sum(calls.values()) for calls in by_stage.values()),
        "needed": sum(len(calls) for calls in by_stage.values()),
        "failed": sum(replica.failed for replica in every),
    }


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2])))
