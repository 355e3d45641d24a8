"""Replicas of the live comparison: servers in one process, of which some stall; prints their ports.

Usage: `python -m benchmarks.choice.live_replicas COUNT STALLING SEED`; ends when its stdin is closed.
"""

from __future__ import annotations

import asyncio
import random
import sys

WORKERS = 2
MEAN_S, SIGMA = 0.02, 0.5  # of a call; it sleeps, so that forty replicas fit on two cores
STALL_S, STALL_EVERY_S = 0.5, 2.0


class LiveReplica:
    """One replica: two calls at a time, the others wait; a stalling one stops both now and then."""

    def __init__(self, rng: random.Random, *, stalls: bool) -> None:
        self._rng, self._stalls = rng, stalls
        self._workers = asyncio.Semaphore(WORKERS)
        self._going = asyncio.Event()
        self._going.set()
        self._inflight = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one call with the number of calls that are there."""
        await reader.readline()
        self._inflight += 1
        async with self._workers:
            await asyncio.sleep(MEAN_S * self._rng.lognormvariate(-(SIGMA**2) / 2, SIGMA))
            await self._going.wait()
        writer.write(b"%d\n" % self._inflight)
        self._inflight -= 1
        writer.close()

    async def stall(self) -> None:
        """Stop and go on, for ever."""
        while self._stalls:
            await asyncio.sleep(self._rng.expovariate(1 / STALL_EVERY_S))
            self._going.clear()
            await asyncio.sleep(STALL_S)
            self._going.set()


async def replicas(count: int, stalling: int, seed: int) -> None:
    """Serve until stdin is closed."""
    rng = random.Random(seed)
    every = [LiveReplica(random.Random(rng.random()), stalls=place < stalling) for place in range(count)]
    servers = [await asyncio.start_server(each.serve, "127.0.0.1", 0) for each in every]
    stalls = [asyncio.create_task(each.stall()) for each in every]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in stalls:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(replicas(*(int(word) for word in sys.argv[1:])))
