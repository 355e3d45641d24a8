"""HTTP servers with scripted misbehaviour towards a call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from kwiken.runtime.wire.frames.messages import MARK
from kwiken.runtime.wire.transport.base import Replica

Reaction = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def misbehaving(react: Reaction) -> AsyncIterator[Replica]:
    """Server that reads the head of a request, or the first line of a client of frames, and runs a script."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not (await reader.readuntil(b"\r\n")).startswith(MARK):
                await reader.readuntil(b"\r\n\r\n")
            await react(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Replica(id="r0", node="here", address=f"http://127.0.0.1:{port}")
    finally:
        server.close()
        await server.wait_closed()


def saying(text: bytes) -> Reaction:
    async def react(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()

    return react


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Never answer; end when the client disconnects."""
    del writer
    with contextlib.suppress(ConnectionError):
        while await reader.read(65_536):
            pass
