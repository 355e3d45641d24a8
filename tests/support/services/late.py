"""Test service with catch-up: a wait, then work that threads speed up beside a fan-out."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Sequence

import msgspec

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial

BLOCK = 1 << 20


class Job(msgspec.Struct, forbid_unknown_fields=True):
    """Request of the service.

    Attributes:
        hold_ms: wait of the first stage, milliseconds.
        blocks: number of blocks of 1 MiB that are hashed.
        slow_shard: number of the slow shard of the look-up; -1 for none.
        slow_ms: delay of the slow shard, milliseconds.
        odd_exit: whether the process that serves that shard exits instead.
    """

    hold_ms: float = 0.0
    blocks: int = 1
    slow_shard: int = -1
    slow_ms: float = 0.0
    odd_exit: bool = False


class Hashed(msgspec.Struct):
    """Digests of all blocks, and the number of threads that computed them."""

    digests: list[str]
    threads: int


service = Service("late")


@service.stage(replicas=2, idempotent=True)
async def hold(job: Job) -> Job:
    """Pass the request on after a wait."""
    await asyncio.sleep(job.hold_ms / 1e3)
    return job


def hash_blocks(numbers: Sequence[int]) -> list[str]:
    """SHA-256 of blocks; the library releases the interpreter lock meanwhile, so threads run in parallel."""
    return [hashlib.sha256(bytes([number % 256]) * BLOCK).hexdigest() for number in numbers]


@service.stage(after=[hold], replicas=2, idempotent=True, threads=3)
async def digest(job: Job, *, threads: int) -> Hashed:
    """Hash the blocks by the given number of threads."""
    loop = asyncio.get_running_loop()
    parts = [range(job.blocks)[first::threads] for first in range(threads)]
    done = await asyncio.gather(*(loop.run_in_executor(None, hash_blocks, part) for part in parts))
    digests = [""] * job.blocks
    for first, part in enumerate(done):
        digests[first::threads] = part
    return Hashed(digests, threads)


def best_there(answer: Partial[int]) -> float:
    """Utility: 1 if the largest number that any shard can give is present."""
    return float(max(answer.present, default=0) == len(answer.values))


def worths(answer: Partial[int]) -> list[float]:
    """Value of shards: 1 for the shard with the largest number."""
    return [float(value == max(answer.present)) for value in answer.values]


@service.stage(after=[hold], fanout=4, replicas=2, idempotent=True, utility=best_there, worth=worths)
async def look(job: Job, *, shard: int) -> int:
    """Number of the shard, from 1."""
    if shard == job.slow_shard:
        if job.odd_exit:
            os._exit(3)
        await asyncio.sleep(job.slow_ms / 1e3)
    return shard + 1


@service.stage(after=[digest, look], replicas=2, idempotent=True)
async def answer(hashed: Hashed, found: Partial[int]) -> dict[str, object]:
    """Merge the available answers."""
    return {"threads": hashed.threads, "digest": hashed.digests[0], "found": found.present}


burning = Service("burning")


class Burn(msgspec.Struct, forbid_unknown_fields=True):
    """Request of `burning`: its name, and for how long the handler blocks the loop, milliseconds."""

    name: str
    burn_ms: float = 0.0


@burning.stage(replicas=2, idempotent=True)
async def burn(work: Burn) -> str:
    """Block the event loop."""
    end = time.perf_counter() + work.burn_ms / 1e3
    while time.perf_counter() < end:
        pass
    return work.name
