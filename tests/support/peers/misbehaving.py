"""Servers of HTTP and of frames with scripted behaviour towards a call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from kwiken.runtime.wire.frames.messages import (
    MARK,
    PREFIX,
    AnswerFrame,
    CallFrame,
    Frame,
    ToServer,
    response,
)
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


_DECODER = msgspec.msgpack.Decoder(ToServer)
CallReaction = Callable[[CallFrame, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def framed(content: Frame | bytes, *, length: int | None = None) -> bytes:
    """One frame, or other bytes in its place, behind its length or a wrong one."""
    data = content if isinstance(content, bytes) else msgspec.msgpack.encode(content)
    return (len(data) if length is None else length).to_bytes(PREFIX, "big") + data


def answer(number: int, data: bytes, **changes: Any) -> AnswerFrame:
    """Whole answer of a replica that works."""
    frame = AnswerFrame(number, True, len(data), data, 200, "", 1.0, 1, 1.0)
    for name, value in changes.items():
        setattr(frame, name, value)
    return frame


async def read_frame(reader: asyncio.StreamReader) -> Any:
    """Next frame of a client."""
    return _DECODER.decode(await reader.readexactly(int.from_bytes(await reader.readexactly(PREFIX), "big")))


@contextlib.asynccontextmanager
async def scripted_replica(react: CallReaction) -> AsyncIterator[Replica]:
    """Replica that runs a script for each call, one after the other on each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\n")
            writer.write(response(1))
            while True:
                frame = await read_frame(reader)
                if isinstance(frame, CallFrame):
                    await react(frame, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Replica(id="r0", node="here", address=f"http://127.0.0.1:{port}")
    finally:
        server.close()
        await server.wait_closed()


def answering(make: Callable[[int], bytes], *, then_close: bool = False) -> CallReaction:
    """Send what `make` returns for the number of a call."""

    async def react(call: CallFrame, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(make(call.id))
        await writer.drain()
        if then_close:
            writer.close()

    return react
