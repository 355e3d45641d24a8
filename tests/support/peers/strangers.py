"""Foreign and malicious servers at a replica's address: a table of what they say to a client, or to a call."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from kwiken.runtime.wire.frames.messages import (
    PIECE,
    AnswerFrame,
    ByeFrame,
    CallFrame,
    CreditFrame,
    EndedFrame,
    Frame,
    ItemFrame,
    PieceFrame,
    response,
)
from kwiken.runtime.wire.transport.base import Replica
from tests.support.peers.misbehaving import answer, framed, read_frame

PACE_S: Final = 0.05
FLOOD: Final = 64 << 10


class Said(msgspec.Struct):
    """Answer of the stage in the tests."""

    text: str


FIT: Final = msgspec.msgpack.encode(Said("fit"))


class Peer:
    """Server side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.call = 0  # number of the call that was read last

    async def say(self, text: bytes) -> None:
        self.writer.write(text)
        await self.writer.drain()

    async def flood(self, text: bytes) -> None:
        """Send the same bytes for ever, as fast as the client reads."""
        text *= max(1, FLOOD // len(text))
        while True:
            await self.say(text)
            await asyncio.sleep(0)  # the client is in the same loop

    async def drip(self, text: bytes) -> None:
        """Send bytes one by one, slowly."""
        for byte in text:
            await self.say(bytes([byte]))
            await asyncio.sleep(PACE_S)

    async def linger(self) -> None:
        """Wait until the client disconnects."""
        while await self.reader.read(FLOOD):
            pass

    def reset(self) -> None:
        """Reset the connection."""
        whose: socket.socket = self.writer.get_extra_info("socket")
        whose.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Reaction = Callable[[Peer], Awaitable[None]]


class Stranger(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of bad server.

    Attributes:
        react: to a call that was read.
        greet: what it says before a client has said anything.
        speaks: whether it speaks frames, so that calls come; else it reacts to a client's first line.
        reads: whether it reads at all.
        sound: whether its answers are good, only unusual.
        errs: whether its answers are errors of the handler: final, and no replica is named.
        refuses: whether it says, or shows, that the call did not run.
    """

    react: Reaction
    greet: bytes = b""
    speaks: bool = True
    reads: bool = True
    sound: bool = False
    errs: bool = False
    refuses: bool = False


Saying = bytes | Callable[[int], bytes]


def _said(text: Saying, peer: Peer) -> bytes:
    return text if isinstance(text, bytes) else text(peer.call)


def says(text: Saying) -> Reaction:
    """Send bytes, which may depend on the number of the call, and leave the connection open."""

    async def react(peer: Peer) -> None:
        await peer.say(_said(text, peer))

    return react


def ends(text: Saying) -> Reaction:
    """Send bytes and close the connection."""

    async def react(peer: Peer) -> None:
        await peer.say(_said(text, peer))
        peer.writer.close()

    return react


def resets(text: Saying) -> Reaction:
    async def react(peer: Peer) -> None:
        await peer.say(_said(text, peer))
        await asyncio.sleep(0)
        peer.reset()

    return react


def floods(text: Saying, then: Saying) -> Reaction:
    async def react(peer: Peer) -> None:
        await peer.say(_said(text, peer))
        await peer.flood(_said(then, peer))

    return react


def drips(text: Saying, then: Saying) -> Reaction:
    async def react(peer: Peer) -> None:
        await peer.say(_said(text, peer))
        await peer.drip(_said(then, peer))

    return react


async def silence(peer: Peer) -> None:
    await peer.linger()


def error(kind: str, text: str) -> bytes:
    return msgspec.msgpack.encode({"kind": kind, "error": text})


def strange(react: Reaction, *, reads: bool = True, sound: bool = False) -> Stranger:
    return Stranger(react=react, reads=reads, sound=sound)


def foreign(react: Reaction, *, greet: bytes = b"", refuses: bool = True) -> Stranger:
    """Server of another protocol: no call is sent to it."""
    return Stranger(react=react, greet=greet, speaks=False, refuses=refuses)


def answering(
    make: Callable[[int], Frame], *, sound: bool = False, errs: bool = False, refuses: bool = False
) -> Stranger:
    """Server that answers each call by one frame."""
    return Stranger(react=says(lambda number: framed(make(number))), sound=sound, errs=errs, refuses=refuses)


def saying(make: Callable[[int], bytes]) -> Stranger:
    return Stranger(react=says(make))


def fit(number: int, data: bytes = FIT, **changes: object) -> AnswerFrame:
    return answer(number, data, **changes)


def begun(number: int, size: int = 9999) -> bytes:
    """Beginning of a long answer, the rest of which is missing."""
    return framed(fit(number, b"x" * 2000, size=size))


PACK: Final = msgspec.msgpack.encode
HTML: Final = b"<!doctype html><title>nginx</title>"
HTTP: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"

STRANGERS: Final[dict[str, Stranger]] = {
    # Connections.
    "closes at once": foreign(ends(b"")),
    "resets at once": foreign(resets(b"")),
    "says nothing": foreign(silence, refuses=False),
    "drips its first line": foreign(drips(b"", response(1)[:-1] + b" " * 300), refuses=False),
    "closes after the call": strange(ends(b"")),
    "closes within a length": strange(ends(b"\0\0")),
    "closes within an answer": strange(ends(lambda n: framed(fit(n))[:-3])),
    "closes within a long answer": strange(ends(begun)),
    "resets after the call": strange(resets(b"")),
    "resets within an answer": strange(resets(lambda n: framed(fit(n))[:-3])),
    "is silent": strange(silence),
    "never reads": strange(silence, reads=False),
    "is silent within an answer": saying(lambda n: framed(fit(n))[:-3]),
    "is silent within a long answer": saying(begun),
    "drips an answer": strange(drips(b"", lambda n: framed(fit(n, b"x" * 9999)))),
    "says bye to every call": answering(lambda _: ByeFrame()),
    "says bye for ever": strange(floods(b"", framed(ByeFrame()))),
    # Lengths.
    "a frame of no bytes": saying(lambda _: bytes(4)),
    "a frame of four billion bytes": saying(lambda n: framed(fit(n), length=(1 << 32) - 1)),
    "a frame of a byte more": saying(lambda n: framed(fit(n), length=len(PACK(fit(n))) + 1) + b"\0"),
    "a frame of a byte less": saying(lambda n: framed(fit(n), length=len(PACK(fit(n))) - 1)),
    "an answer shorter than told": answering(lambda n: fit(n, size=len(FIT) + 1)),
    "an answer longer than told": answering(lambda n: fit(n, size=1)),
    "an answer of a negative length": answering(lambda n: fit(n, size=-5)),
    "longer than taken": answering(lambda n: fit(n, size=99_999_999_999), errs=True),
    "a piece too much": saying(lambda n: begun(n, 3000) + framed(PieceFrame(n, b"x" * 1001))),
    "empty pieces": strange(floods(begun, lambda n: framed(PieceFrame(n, b"")))),
    "tiny pieces": strange(floods(begun, lambda n: framed(PieceFrame(n, b"x")))),
    "pieces without credit": strange(
        floods(lambda n: begun(n, 16 << 20), lambda n: framed(PieceFrame(n, b"x" * PIECE)))
    ),
    # Frames.
    "noise": saying(lambda _: b"\0\0\0\x05noise"),
    "another kind of frame": saying(lambda n: framed(PACK([99, n]))),
    "a client's frame": answering(lambda n: CallFrame(n, True, 0, b"", "say", 0, 0, 1.0, 0, 1, "")),
    "more fields": saying(lambda n: framed(PACK([*msgspec.to_builtins(fit(n)), 1]))),
    "a map": saying(lambda n: framed(PACK({"id": n}))),
    "an unknown call": answering(lambda n: fit(n + 1)),
    "call zero": answering(lambda n: fit(n - n)),
    "call minus one": answering(lambda n: fit(-n)),
    "two answers": saying(lambda n: framed(fit(n)) * 2),
    "the answer before last": answering(lambda n: fit(n - 1)),
    "the end of a call that goes on": answering(lambda n: EndedFrame(n, 1.0)),
    "credit for nothing": strange(floods(b"", lambda n: framed(CreditFrame(n, 1 << 20)))),
    "an item before the answer": answering(lambda n: ItemFrame(n, True, 1, b"x")),
    "several items": saying(lambda n: framed(fit(n, last=False)) + framed(ItemFrame(n, True, len(FIT), FIT))),
    "items for ever": strange(
        floods(lambda n: framed(fit(n, last=False)), lambda n: framed(ItemFrame(n, False, 1, b"x")))
    ),
    # Bodies.
    "no MessagePack": answering(lambda n: fit(n, b"\xc1\xc1")),
    "MessagePack cut off": answering(lambda n: fit(n, FIT[:-1])),
    "MessagePack and more": answering(lambda n: fit(n, FIT + b"\x00")),
    "deep nesting": answering(lambda n: fit(n, b"\x91" * 30_000)),
    "an array of four billion": answering(lambda n: fit(n, b"\xdd\xff\xff\xff\xff")),
    "no UTF-8": answering(lambda n: fit(n, b"\x81\xa4text\xa2\xff\xfe")),
    "another type": answering(lambda n: fit(n, PACK([1, 2]))),
    "another field": answering(lambda n: fit(n, PACK({"word": "x"}))),
    "more fields in the answer": answering(lambda n: fit(n, PACK({"text": "fit", "more": 1})), sound=True),
    "JSON": answering(lambda n: fit(n, b'{"text":"fit"}')),
    # Figures that a replica reports of itself.
    "busy for nan ms": answering(lambda n: fit(n, busy_ms=float("nan"))),
    "busy for inf ms": answering(lambda n: fit(n, busy_ms=float("inf"))),
    "a latency of nan": answering(lambda n: fit(n, latency_ms=float("nan"))),
    "-1 calls held": answering(lambda n: fit(n, inflight=-1_000_000_000)),
    "endless calls held": answering(lambda n: fit(n, inflight=1 << 60)),
    # Statuses.
    "500 with garbage": answering(lambda n: fit(n, b"oops", status=500)),
    "500 with a form of its own": answering(lambda n: fit(n, PACK({"kind": 1, "error": []}), status=500)),
    "errors of the handler": answering(lambda n: fit(n, error("ValueError", "no"), status=500), errs=True),
    "long errors": answering(lambda n: fit(n, error("E" * 9000, "x" * 20_000), status=500), errs=True),
    "a status of its own": answering(lambda n: fit(n, HTML, status=-(1 << 40))),
    "full for ever": answering(lambda n: fit(n, b"full", status=503, refused="1"), refuses=True),
    "504 at once": answering(lambda n: fit(n, error("DeadlineError", "late"), status=504)),
    # Versions and other protocols.
    "a version to come": foreign(says(b"KWIKEN-FRAMES 2\r\n")),
    "no version": foreign(ends(b"KWIKEN-FRAMES none: this replica speaks versions 7 to 8\r\n")),
    "version zero": foreign(says(b"KWIKEN-FRAMES 0\r\n")),
    "a long first line": foreign(floods(b"KWIKEN-FRAMES ", b"1")),
    "a release that speaks HTTP": foreign(ends(HTTP)),
    "a web server": foreign(ends(b"HTTP/1.0 501 Unsupported\r\n\r\n" + HTML)),
    "HTTP for ever": foreign(floods(HTTP, HTTP)),
    "TLS": foreign(ends(b"\x15\x03\x01\x00\x02\x02\x16")),
    "HTTP/2": foreign(silence, greet=b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64"),
    "SSH": foreign(silence, greet=b"SSH-2.0-OpenSSH_9.6\r\n"),
    "SMTP": foreign(silence, greet=b"220 mail.example ESMTP\r\n"),
    "MySQL": foreign(silence, greet=b"J\0\0\0\n8.0.36\0" + bytes(60)),
    "Redis": foreign(says(b"-ERR unknown command\r\n")),
    "echo": foreign(says(b"KWIKEN-FRAMES 1 1\r\n")),
}


class Place:
    """Address of a bad server.

    Attributes:
        replica: its address, as a replica's.
        calls: how often each argument came in a call that was read whole.
        connections: that were made.
        open: connections that are open.
    """

    def __init__(self, stranger: Stranger) -> None:
        self._stranger = stranger
        self.replica = Replica(id="bad", node="there", address="")
        self.calls: Counter[str] = Counter()
        self.connections = 0
        self.open = 0

    @property
    def hits(self) -> int:
        """Number of connections to it."""
        return max(self.connections, self.calls.total())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.connections += 1
        peer = Peer(reader, writer)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._talk(peer)
        finally:
            self.open -= 1
            writer.close()

    async def _talk(self, peer: Peer) -> None:
        stranger = self._stranger
        if stranger.greet:
            await peer.say(stranger.greet)
        await peer.reader.readuntil(b"\n")
        if not stranger.speaks:
            await stranger.react(peer)
            await peer.linger()
            return
        await peer.say(response(1))
        if not stranger.reads:
            await stranger.react(peer)
            return
        while not peer.writer.is_closing():
            frame = await read_frame(peer.reader)
            if isinstance(frame, CallFrame):
                (asked,) = msgspec.msgpack.decode(frame.data)
                self.calls[asked] += 1
                peer.call = frame.id
                await stranger.react(peer)


@contextlib.asynccontextmanager
async def at_home(stranger: Stranger) -> AsyncIterator[Place]:
    """Run a bad server."""
    place = Place(stranger)
    server = await asyncio.start_server(place.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    place.replica = Replica(id="bad", node="there", address=f"http://127.0.0.1:{port}")
    try:
        yield place
    finally:
        server.close()
        await server.wait_closed()
