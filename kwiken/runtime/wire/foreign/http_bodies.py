"""Bodies of HTTP/1.1 responses as they arrive: of a stated length, in chunks, or until the end."""

from __future__ import annotations

import re
from typing import Final

MAX_CHUNK_LINE: Final = 4096  # bytes of a chunk's length with its extensions, or of a trailer
MAX_TRAILERS: Final = 100
# Chunks of one body: this many, and one more for so many bytes. Each takes some microseconds of the loop.
FREE_CHUNKS: Final = 4096
BYTES_OF_CHUNK: Final = 32
FREE_EXTENSIONS: Final = 64 << 10  # bytes of extensions, and one more for each byte of the body
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*\Z")


class BrokenReplyError(Exception):
    """The response was cut off, or is no HTTP response of the expected form."""


class Body:
    """Body of a response as it arrives.

    Attributes:
        complete: whether all of it was read.
        data: the bytes so far that were not taken.
        surplus: whether more bytes came than belong to it.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.complete = False
        self.surplus = False

    def feed(self, data: bytes | bytearray, most: int) -> int:
        """Read on, at most so many lines of chunks; returns their number.

        Raises:
            BrokenReplyError: the data cannot belong to the body.
        """
        raise NotImplementedError

    def take(self) -> bytearray:
        """Take the bytes so far out of the body, which then forgets them."""
        data, self.data = self.data, bytearray()
        return data


class SizedBody(Body):
    """Body of a stated length, in bytes; see `Body`."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._left = length
        self.complete = length == 0

    def feed(self, data: bytes | bytearray, most: int) -> int:
        """Read on."""
        del most
        self.surplus = len(data) > self._left
        self.data += data[: self._left] if self.surplus else data
        self._left = max(0, self._left - len(data))
        self.complete = not self._left
        return 0


class UnsizedBody(Body):
    """Body that ends with its connection; see `Body`."""

    def feed(self, data: bytes | bytearray, most: int) -> int:
        """Read on."""
        del most
        self.data += data
        return 0


class ChunkedBody(Body):
    """Body in chunks, each with its length (RFC 9112, section 7.1); see `Body`."""

    def __init__(self) -> None:
        super().__init__()
        self._unread = bytearray()
        self._left = 0  # bytes of the current chunk and of the line break behind it
        self._in_trailers = False
        self._trailers = 0
        self._chunks = 0
        self._extensions = 0  # bytes

    def feed(self, data: bytes | bytearray, most: int) -> int:
        """Read on; what is left after `most` lines waits for the next time."""
        unread = self._unread
        unread += data
        lines = 0
        while unread and not self.complete and lines < most:
            if self._left:
                if not self._read_chunk():
                    break
            elif self._read_line():
                lines += 1
            else:
                break
        self.surplus = self.complete and bool(unread)
        return lines

    def take(self) -> bytearray:
        """Take the bytes so far; a body whose bytes are taken as they come may have any number of chunks."""
        self._chunks = self._extensions = 0
        return super().take()

    def _read_chunk(self) -> bool:
        """Read bytes of the current chunk; returns whether to go on."""
        unread = self._unread
        if self._left > 2:  # noqa: PLR2004 - the line break behind the chunk
            taken = min(len(unread), self._left - 2)
            self.data += unread[:taken]
            del unread[:taken]
            self._left -= taken
            return True
        if len(unread) < 2:  # noqa: PLR2004
            return False
        if unread[:2] != b"\r\n":
            raise BrokenReplyError("a chunk is longer than it says")
        del unread[:2]
        self._left = 0
        return True

    def _read_line(self) -> bool:
        """Read the length of the next chunk, or a trailer; returns whether to go on."""
        end = self._unread.find(b"\r\n")
        if end > MAX_CHUNK_LINE or (end < 0 and len(self._unread) > MAX_CHUNK_LINE + 1):  # CR may have come
            raise BrokenReplyError("the line before a chunk is too long")
        if end < 0:
            return False
        line = bytes(self._unread[:end])
        del self._unread[: end + 2]
        if self._in_trailers:
            self._trailers += 1
            if self._trailers > MAX_TRAILERS:
                raise BrokenReplyError(f"more than {MAX_TRAILERS} trailers")
            self.complete = not line
            return True
        stated, _, extension = line.partition(b";")
        match = _SIZE.match(stated)
        if match is None or b"\r" in extension or b"\n" in extension:
            raise BrokenReplyError(f"not the length of a chunk: {line[:40]!r}")
        self._chunks += 1
        self._extensions += len(extension)
        if self._extensions > FREE_EXTENSIONS + len(self.data):
            raise BrokenReplyError(
                f"too long extensions of chunks: {self._extensions} bytes for {len(self.data)}"
            )
        if self._chunks > FREE_CHUNKS + len(self.data) // BYTES_OF_CHUNK:
            raise BrokenReplyError(f"too many small chunks: {self._chunks} for {len(self.data)} bytes")
        size = int(match[1], 16)
        self._left = size + 2 if size else 0
        self._in_trailers = not size
        return True
