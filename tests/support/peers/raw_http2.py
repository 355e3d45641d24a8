"""Client of HTTP/2 frames, for what no gRPC library sends: streams without a message, and parts of messages."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
FIRST_WINDOW: Final = 4  # number of the setting: window of a stream when it begins
WINDOW: Final = 65_535  # bytes that each side takes first, of a stream and of a connection
MAX_FRAME: Final = 16_384  # bytes


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def head(method: str, *more: tuple[str, str]) -> bytes:
    """Header block of a call, without compression."""
    entries = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
        *more,
    )
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in entries)


def _text(text: str) -> bytes:
    return _short(text.encode())


def _short(text: bytes) -> bytes:
    assert len(text) < 127
    return bytes((len(text),)) + text


class Http2Client:
    """Connection that sends frames as told, within the windows that the server gives.

    Args:
        port: port of the server, at 127.0.0.1.
        takes: bytes of each stream that the server may send, for good.

    Attributes:
        ended: streams that the server has ended, with its header blocks and error codes for each.
        begun: streams that the server has begun to answer.
        gone: whether the server has closed the connection, or says that it will.
    """

    def __init__(self, port: int, *, takes: int = WINDOW) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._received = bytearray()
        self._window = WINDOW
        self._first_window = WINDOW
        self._windows: dict[int, int] = {}
        self._next = 1
        self.ended: dict[int, bytes] = {}
        self.gone = False
        self.begun: set[int] = set()
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", FIRST_WINDOW, takes)))
        self._socket.setblocking(False)

    def close(self) -> None:
        """Close the connection at once."""
        self._socket.close()

    def open(self, method: str, *more: tuple[str, str], count: int = 1) -> list[int]:
        """Open streams, each with headers and no message; returns their numbers."""
        block = head(method, *more)
        opened = [self._next + 2 * each for each in range(count)]
        self._next += 2 * count
        for stream in opened:
            self._windows[stream] = self._first_window
            self._send(frame(HEADERS, END_HEADERS, stream, block))
        return opened

    def write(self, stream: int, data: bytes, *, ends: bool = False) -> int:
        """Send as much of some data as the windows allow; returns how many bytes were sent."""
        sent = 0
        while sent < len(data) and stream not in self.ended and not self.gone:
            size = min(MAX_FRAME, len(data) - sent, self._window, self._windows[stream])
            if size <= 0:
                break
            last = ends and sent + size == len(data)
            if not self._send(frame(DATA, END_STREAM if last else 0, stream, data[sent : sent + size])):
                break
            sent += size
            self._window -= size
            self._windows[stream] -= size
        return sent

    def _send(self, data: bytes) -> bool:
        """Send whole frames; returns whether the connection still takes them."""
        place = 0
        self._socket.settimeout(5.0)
        try:
            while place < len(data):
                place += self._socket.send(data[place:])
        except OSError:
            self.gone = True
        finally:
            with contextlib.suppress(OSError):
                self._socket.setblocking(False)
        return not self.gone

    def read(self) -> None:
        """Take what the server has sent, without waiting."""
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    data = self._socket.recv(1 << 16)
                except BlockingIOError:
                    raise
                except OSError:
                    data = b""
                if not data:
                    self.gone = True
                    break
                self._received += data
        for kind, flags, stream, payload in self._frames():
            if kind == HEADERS:
                self.begun.add(stream)
            self._take(kind, flags, stream, payload)

    def _frames(self) -> Iterator[tuple[int, int, int, bytes]]:
        place, data = 0, self._received
        while len(data) - place >= 9:
            size = int.from_bytes(data[place : place + 3])
            if len(data) - place < 9 + size:
                break
            kind, flags = data[place + 3], data[place + 4]
            stream = int.from_bytes(data[place + 5 : place + 9]) & 0x7FFFFFFF
            yield kind, flags, stream, bytes(data[place + 9 : place + 9 + size])
            place += 9 + size
        del data[:place]

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            for place in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, place)
                if name == FIRST_WINDOW:
                    for each in self._windows:
                        self._windows[each] += value - self._first_window
                    self._first_window = value
            self._send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._send(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            (more,) = struct.unpack(">I", payload)
            if stream:
                self._windows[stream] = self._windows.get(stream, 0) + more
            else:
                self._window += more
        elif kind == GOAWAY:
            self.gone = True
        elif kind == RST_STREAM or (kind == HEADERS and flags & END_STREAM):
            self.ended.setdefault(stream, payload)
