"""Foreign and malicious servers at a replica's address: a table of their responses to a call."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import msgspec

from kwiken.runtime.wire.transport.base import Replica

KNOWN: Final = b"kw-busy-ms: 1\r\nkw-inflight: 1\r\nkw-latency-ms: 1\r\n"
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
        greet: what it says before any call came.
        reads: whether it reads calls at all.
        sound: whether its answers are good, only unusual.
        errs: whether its answers are errors of the handler: final, and no replica is named.
        refuses: whether it says, or shows, that the call did not run.
    """

    react: Reaction
    greet: bytes = b""
    reads: bool = True
    sound: bool = False
    errs: bool = False
    refuses: bool = False


def http(
    status: int = 200, body: bytes = FIT, headers: bytes = KNOWN, *, length: bytes | None = None
) -> bytes:
    told = b"%d" % len(body) if length is None else length
    return b"HTTP/1.1 %d Word\r\nContent-Length: %s\r\n%s\r\n%s" % (status, told, headers, body)


def says(text: bytes) -> Reaction:
    """Send bytes and leave the connection open."""

    async def react(peer: Peer) -> None:
        await peer.say(text)

    return react


def ends(text: bytes) -> Reaction:
    """Send bytes and close the connection."""

    async def react(peer: Peer) -> None:
        await peer.say(text)
        peer.writer.close()

    return react


def resets(text: bytes) -> Reaction:
    async def react(peer: Peer) -> None:
        await peer.say(text)
        await asyncio.sleep(0)
        peer.reset()

    return react


def floods(text: bytes, then: bytes) -> Reaction:
    async def react(peer: Peer) -> None:
        await peer.say(text)
        await peer.flood(then)

    return react


def drips(text: bytes, then: bytes) -> Reaction:
    async def react(peer: Peer) -> None:
        await peer.say(text)
        await peer.drip(then)

    return react


async def silence(peer: Peer) -> None:
    await peer.linger()


def error(kind: str, text: str) -> bytes:
    return msgspec.msgpack.encode({"kind": kind, "error": text})


def strange(
    react: Reaction, *, greet: bytes = b"", reads: bool = True, sound: bool = False, refuses: bool = False
) -> Stranger:
    return Stranger(react=react, greet=greet, reads=reads, sound=sound, refuses=refuses)


def answering(text: bytes, *, sound: bool = False, errs: bool = False, refuses: bool = False) -> Stranger:
    return Stranger(react=says(text), sound=sound, errs=errs, refuses=refuses)


PACK: Final = msgspec.msgpack.encode
OK: Final = b"HTTP/1.1 200 OK\r\n"
HTML: Final = b"<!doctype html><title>nginx</title>"
NO_BODY: Final = b"Content-Length: 0\r\n\r\n"

STRANGERS: Final[dict[str, Stranger]] = {
    # Connections.
    "closes at once": strange(ends(b""), reads=False),
    "closes after the call": strange(ends(b"")),
    "closes within the head": strange(ends(OK + b"Content-Le")),
    "closes within the body": strange(ends(http(length=b"500"))),
    "resets at once": strange(resets(b""), reads=False),
    "resets after the call": strange(resets(b"")),
    "resets within the body": strange(resets(http(length=b"500"))),
    "is silent": strange(silence),
    "never reads": strange(silence, reads=False),
    "is silent after a head": strange(says(OK + b"Content-Length: 9\r\n" + KNOWN + b"\r\n")),
    "drips a head": strange(drips(OK, b"A: " + b"b" * 10_000)),
    "drips a body": strange(drips(http(body=b"", length=b"9999"), b"x" * 9999)),
    # Lengths.
    "chunked": answering(OK + KNOWN + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
    "chunked without end": strange(
        floods(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"400\r\n" + b"x" * 1024 + b"\r\n")
    ),
    "until it closes": strange(ends(OK + b"Content-Type: text/html\r\n\r\n" + HTML)),
    "no content": answering(b"HTTP/1.1 204 No Content\r\n\r\n"),
    "shorter than told": answering(http(length=b"1")),
    "longer than taken": answering(http(length=b"99999999999", headers=b"")),
    "longer than taken, of a replica": answering(http(length=b"99999999999"), errs=True),
    "two lengths": answering(http(headers=KNOWN + b"Content-Length: 3\r\n")),
    "a negative length": answering(http(length=b"-5")),
    "a length in words": answering(http(length=b"five")),
    # Heads.
    "HTTP/1.0": strange(ends(b"HTTP/1.0 200 OK\r\nServer: SimpleHTTP/0.6\r\n\r\n" + HTML)),
    "HTTP/1.0, of a replica": strange(ends(http().replace(b"HTTP/1.1", b"HTTP/1.0")), sound=True),
    "closes each time": strange(ends(http(headers=KNOWN + b"Connection: close\r\n")), sound=True),
    "continue first": answering(b"HTTP/1.1 100 Continue\r\n\r\n" + http()),
    "continue for ever": strange(floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
    "early hints for ever": strange(floods(b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")),
    "a huge head": answering(OK + b"A: " + b"b" * (1 << 20) + b"\r\n" + NO_BODY),
    "an endless head": strange(floods(OK, b"X-More: " + b"y" * 200 + b"\r\n")),
    "many headers": answering(OK + b"A: b\r\n" * 500 + NO_BODY),
    "NUL in a header's name": answering(http(headers=KNOWN + b"a\0b: c\r\n")),
    "a folded header": answering(http(headers=KNOWN + b"A: b\r\n c\r\n")),
    "bare line ends": answering(http().replace(b"\r\n", b"\n")),
    "two answers": answering(http() + http()),
    "an answer before the call": strange(silence, greet=http(headers=b"")),
    # Bodies.
    "no MessagePack": answering(http(body=b"\xc1\xc1")),
    "MessagePack cut off": answering(http(body=FIT[:-1])),
    "MessagePack and more": answering(http(body=FIT + b"\x00")),
    "deep nesting": answering(http(body=b"\x91" * 100_000)),
    "an array of four billion": answering(http(body=b"\xdd\xff\xff\xff\xff")),
    "no UTF-8": answering(http(body=b"\x81\xa4text\xa2\xff\xfe")),
    "another type": answering(http(body=PACK([1, 2]))),
    "another field": answering(http(body=PACK({"word": "x"}))),
    "more fields": answering(http(body=PACK({"text": "fit", "more": 1})), sound=True),
    "JSON": answering(http(body=b'{"text":"fit"}')),
    # Figures that a replica reports of itself.
    "no replica's headers": answering(http(headers=b"")),
    "busy for nan ms": answering(http(headers=KNOWN.replace(b"busy-ms: 1", b"busy-ms: nan"))),
    "busy for inf ms": answering(http(headers=KNOWN.replace(b"busy-ms: 1", b"busy-ms: inf"))),
    "a latency of nan": answering(http(headers=KNOWN.replace(b"latency-ms: 1", b"latency-ms: nan"))),
    "-1 calls held": answering(http(headers=KNOWN.replace(b"inflight: 1", b"inflight: -1000000000"))),
    "endless calls held": answering(http(headers=KNOWN.replace(b"inflight: 1", b"inflight: " + b"9" * 4000))),
    # Statuses.
    "a redirect": answering(http(301, b"", b"Location: http://elsewhere.invalid/\r\n")),
    "401": answering(http(401, HTML, b"WWW-Authenticate: Basic\r\n")),
    "404": answering(http(404, HTML, b""), refuses=True),
    "404, chunked": answering(
        b"HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", refuses=True
    ),
    "405": answering(http(405, HTML, b"Allow: GET\r\n"), refuses=True),
    "501 of Python's server": strange(
        ends(b"HTTP/1.0 501 Unsupported\r\nConnection: close\r\nContent-Length: 35\r\n\r\n" + HTML),
        refuses=True,
    ),
    "500 with garbage": answering(http(500, b"oops")),
    "500 with a form of its own": answering(http(500, PACK({"kind": 1, "error": []}))),
    "500 with a huge body": strange(floods(http(500, b"", length=b"999999999"), b"x" * FLOOD)),
    "500 that closes": strange(ends(b"HTTP/1.1 500 Oops\r\n\r\noops")),
    "errors of the handler": answering(http(500, error("ValueError", "no")), errs=True),
    "endless errors": answering(http(500, error("E" * 100_000, "x" * 1_000_000)), errs=True),
    "503 without a refusal": answering(http(503, b"down", b"")),
    "full for ever": answering(http(503, b"full", b"kw-refused: 1\r\n"), refuses=True),
    "504 of a proxy": answering(http(504, HTML, b"")),
    "504 at once": answering(http(504, error("DeadlineError", "late"))),
    "upgrades": answering(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"),
    # Other protocols.
    "TLS": strange(ends(b"\x15\x03\x01\x00\x02\x02\x16")),
    "HTTP/2": strange(silence, greet=b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64"),
    "SSH": strange(silence, greet=b"SSH-2.0-OpenSSH_9.6\r\n"),
    "SMTP": strange(silence, greet=b"220 mail.example ESMTP\r\n"),
    "MySQL": strange(silence, greet=b"J\0\0\0\n8.0.36\0" + bytes(60)),
    "Redis": strange(says(b"-ERR unknown command 'POST'\r\n")),
    "echo": strange(says(b"POST /call HTTP/1.1\r\nContent-Length: 0\r\n\r\n")),
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
        if self._stranger.greet:
            await peer.say(self._stranger.greet)
        if not self._stranger.reads:
            await self._stranger.react(peer)
            return
        while not peer.writer.is_closing():
            head = await peer.reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"POST"):
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                (asked,) = msgspec.msgpack.decode(await peer.reader.readexactly(length))
                self.calls[asked] += 1
            await self._stranger.react(peer)


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
