"""Relay before one replica whose way can be changed while calls run: slower, elsewhere, cut, or closed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

CHUNK: Final = 1 << 16


class Detour:
    """Relay at a port of its own.

    Args:
        target: host and port behind it.

    Attributes:
        port: port that it listens at, also after it was closed.
        delay_s: delay of all that is passed on, seconds.
        connections: number of connections that are open.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._usual = self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.delay_s = 0.0

    async def open(self) -> None:
        """Take connections, at the same port as before."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuse connections, and reset those that are open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    def lead(self, host: str, port: int) -> None:
        """Lead to another place, for connections from now on; those that are open are reset."""
        self._target = host, port
        self.cut()

    async def heal(self) -> None:
        """Lead to the replica again, without delay."""
        self.delay_s = 0.0
        if self._target != self._usual:
            self.lead(*self._usual)
        await self.open()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection(*self._target)
                self._writers.add(far_writer)
                try:
                    await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
                finally:
                    self._writers.discard(far_writer)
                    far_writer.transport.abort()
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                sink.write(data)
                await sink.drain()
        sink.close()
