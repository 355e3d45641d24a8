"""TCP proxy that stands in for a bad network: it delays, cuts, stalls or lets bytes through one by one.

A network namespace with `netem` would drop packets; for a program above TCP a lost packet is a delay, and many
are a stall or a cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

CHUNK: Final = 1 << 16
DRIP_BYTES: Final = 7
STALL_S: Final = 60.0  # longer than any test


@dataclass(frozen=True)
class Path:
    """What happens to bytes in both directions.

    Attributes:
        delay_ms: delay of each part that is passed on, milliseconds.
        jitter_ms: most by which the delay is longer, milliseconds.
        cut: share of the parts at which the connection is cut, 0 to 1.
        stall: share of the parts after which the connection passes nothing on, 0 to 1.
        drips: whether a few bytes are passed on at a time.
    """

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    cut: float = 0.0
    stall: float = 0.0
    drips: bool = False


@contextlib.asynccontextmanager
async def rough_path(host: str, port: int, path: Path, seed: int = 1) -> AsyncIterator[int]:
    """Pass connections on to a server; gives the port to connect to at 127.0.0.1."""
    rng = random.Random(seed)
    tasks: set[asyncio.Task[None]] = set()

    async def passes_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(DRIP_BYTES if path.drips else CHUNK):
            if rng.random() < path.cut:
                return
            if rng.random() < path.stall:
                await asyncio.sleep(STALL_S)
            if path.delay_ms or path.jitter_ms:
                await asyncio.sleep((path.delay_ms + path.jitter_ms * rng.random()) / 1e3)
            writer.write(data)
            await writer.drain()

    async def serves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.CancelledError):
            far_reader, far_writer = await asyncio.open_connection(host, port)
            with contextlib.closing(far_writer):
                ways = [
                    asyncio.create_task(passes_on(reader, far_writer)),
                    asyncio.create_task(passes_on(far_reader, writer)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)
        writer.transport.abort()
        tasks.discard(task)

    server = await asyncio.start_server(serves, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        left = list(tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0)
