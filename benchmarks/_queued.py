"""A service whose replicas have queues, and little else: each serves one call at a time, by the clock.

A call holds its replica for a drawn time and then rests for another without holding it. Neither burns a
processor, so a small machine carries many replicas, and what makes calls wait is their queues alone.
"""

from __future__ import annotations

import asyncio
import math
import random
import time

import msgspec

from kwiken import Service


class Hold(msgspec.Struct, frozen=True):
    """How long stages held their replicas, milliseconds."""

    fetch_ms: float = 0.0
    rank_ms: float = 0.0


queued = Service("queued")
_turn = asyncio.Lock()  # one a process, so one a replica; first come, first served
_random = random.Random()


def _draw(mean_ms: float, variation: float) -> float:
    """Log-normal, seconds."""
    spread = math.log1p(variation**2)
    return mean_ms / 1e3 * math.exp(_random.gauss(0.0, math.sqrt(spread)) - spread / 2)


async def _hold(mean_ms: float, variation: float) -> float:
    """Hold this replica; how long it was held, milliseconds."""
    async with _turn:
        began = time.perf_counter()
        await asyncio.sleep(_draw(mean_ms, variation))
        return (time.perf_counter() - began) * 1e3


@queued.stage(replicas=3, idempotent=True)
async def fetch(request: Hold) -> Hold:
    """Much rest beside its work."""
    held = await _hold(9.0, 0.7)
    await asyncio.sleep(_draw(12.0, 1.0))
    return msgspec.structs.replace(request, fetch_ms=held)


@queued.stage(after=[fetch], replicas=3, idempotent=True)
async def rank(found: Hold) -> Hold:
    """Work alone, and very uneven."""
    return msgspec.structs.replace(found, rank_ms=await _hold(9.0, 1.3))


queued.check()
