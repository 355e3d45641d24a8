"""Service of the fault matrix: every replica writes down each call that it starts, so that copies can be counted."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

import msgspec

from kwiken.model.service.service import Service
from kwiken.model.service.stage import Partial

LOG_FOLDER: Final = "KWIKEN_TEST_CALLS"  # variable that names the folder of the calls
SHARDS: Final = 2
LANES: Final = 4  # of a replica, where a request's look-ups take one
MIB: Final = 1 << 20
# Of a stage: far more than a fault lasts, as processes may wait for a processor of a busy machine for a second or two,
# and both stages within the deadline of a request.
TIMEOUT_MS: Final = 4500


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """Request of the service.

    Attributes:
        number: number of the request, which no other one has; below 0 for calls that are not counted.
        sleep_ms: wait of every look-up, milliseconds.
        mib: memory that a look-up needs, MiB.
        lane_ms: time for which every look-up has one of its replica's lanes, milliseconds; 0 for none.
    """

    number: int
    sleep_ms: float = 5.0
    mib: int = 0
    lane_ms: float = 0.0


service = Service("matrix")
_open: list[int] = []
_lanes = asyncio.Semaphore(LANES)


def note(stage: str, number: int, shard: int) -> None:
    """Write down that a call starts; the line is in the file even if the process is killed afterwards."""
    folder = os.environ.get(LOG_FOLDER)
    if folder is None:
        return
    if not _open:
        _open.append(os.open(Path(folder) / str(os.getpid()), os.O_CREAT | os.O_APPEND | os.O_WRONLY))
    os.write(_open[0], f"{stage} {number} {shard}\n".encode())


def share_there(answer: Partial[str]) -> float:
    """Utility: the share of the shards that answered."""
    return len(answer.present) / len(answer.values)


@service.stage(fanout=SHARDS, replicas=3, idempotent=True, timeout_ms=TIMEOUT_MS, utility=share_there)
async def look(ask: Ask, *, shard: int) -> str:
    """Number of the request and the shard, after a wait."""
    note("look", ask.number, shard)
    taken = bytearray(ask.mib * MIB)
    await asyncio.sleep(ask.sleep_ms / 1e3)
    if ask.lane_ms:
        async with _lanes:
            await asyncio.sleep(ask.lane_ms / 1e3)
    del taken
    return f"{ask.number}.{shard}"


@service.stage(after=[look], replicas=2, idempotent=True, timeout_ms=TIMEOUT_MS, threads=2)
async def join(parts: Partial[str], *, threads: int) -> str:
    """The shards' answers in one line."""
    del threads
    there = parts.present
    note("join", int(there[0].partition(".")[0]) if there else -1, 0)
    return " ".join(there)


def capacity_per_s(replicas: int, lane_ms: float) -> float:
    """Requests a second that replicas can serve; hardly less on a busy machine, as they wait and do not compute."""
    return replicas * LANES / SHARDS * 1e3 / lane_ms


def whole(number: int) -> str:
    """The answer that lacks nothing."""
    return " ".join(f"{number}.{shard}" for shard in range(SHARDS))
