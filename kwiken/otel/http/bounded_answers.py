"""HTTP answers with a bound in bytes and in time, head and body together.

A time limit for each read, as sockets have it, ends neither an answer that drips nor one that never ends.
"""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from functools import partial
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Final, NamedTuple, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MIN_RATE_BYTES_PER_S: Final = 1024.0


class Bounds(NamedTuple):
    """Bounds of one answer.

    Attributes:
        timeout_s: longest wait for the connection, and for the first byte, seconds. Each further byte
            prolongs the wait as `MIN_RATE_BYTES_PER_S` allows.
        whole_s: longest time of the whole answer, seconds.
        size: largest size of head and body as sent, bytes.
    """

    timeout_s: float
    whole_s: float
    size: int


COLLECTOR: Final = Bounds(timeout_s=5.0, whole_s=5.0, size=1 << 20)
JAEGER: Final = Bounds(timeout_s=60.0, whole_s=900.0, size=4 << 30)
SPARK_HISTORY: Final = Bounds(timeout_s=60.0, whole_s=900.0, size=4 << 30)
PROMETHEUS: Final = Bounds(timeout_s=60.0, whole_s=120.0, size=256 << 20)


class AnswerBoundError(OSError):
    """An answer was larger, or took longer, than its bounds allow."""


def bounded_by(bounds: Bounds) -> Callable[..., HTTPResponse]:
    """`response_class` of an `HTTPConnection` whose answers have these bounds."""
    return partial(_BoundedResponse, bounds)


class _BoundedResponse(HTTPResponse):
    def __init__(
        self,
        bounds: Bounds,
        sock: socket.socket,
        debuglevel: int = 0,
        method: str | None = None,
        url: str | None = None,
    ) -> None:
        super().__init__(cast(socket.socket, _BoundedFile(sock, bounds)), debuglevel, method, url)


class _BoundedFile:
    """The one method of a socket that a response needs."""

    def __init__(self, sock: socket.socket, bounds: Bounds) -> None:
        self._sock = sock
        self._bounds = bounds

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_BoundedReader(self._sock, self._bounds))


class _BoundedReader(io.RawIOBase):
    """Bytes of one answer; the clock starts with the first wait for them."""

    def __init__(self, sock: socket.socket, bounds: Bounds) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._bounds = bounds
        self._began = time.monotonic()
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        bounds, before_s = self._bounds, self._sock.gettimeout()
        first_s = bounds.timeout_s if before_s is None else min(bounds.timeout_s, before_s)
        allowed_s = min(bounds.whole_s, first_s + self._size / MIN_RATE_BYTES_PER_S)
        left_s = self._began + allowed_s - time.monotonic()
        late = AnswerBoundError(f"the answer takes longer than {allowed_s:.3g} s for {self._size:,} bytes")
        if left_s <= 0:
            raise late
        self._sock.settimeout(left_s)
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError as error:
            raise late from error
        finally:
            self._sock.settimeout(before_s)  # of the next request on this connection
        self._size += count or 0
        if self._size > bounds.size:
            raise AnswerBoundError(f"the answer is larger than {_shown(bounds.size)}")
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _shown(size: int) -> str:
    return f"{size >> 30} GiB" if size >= 1 << 30 else f"{size >> 20} MiB"
