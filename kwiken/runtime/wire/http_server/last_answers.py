"""Lingering close: last responses on connections that are closed while the client's bytes are unread.

A kernel that closes a socket with unread bytes resets the connection, and the reset discards the response
that the client has not read yet (RFC 9112, section 9.6). So the response is written, the sending half is
closed, and what the client still sends is dropped for a short while.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

LINGER_S: Final = 1.0
MAX_LINGERING: Final = 64  # connections at once


class LastAnswers:
    """Connections that have got their last response and are not closed yet.

    Args:
        most: largest number of such connections; further ones are closed right after their response.
        linger_s: time that a client has to read its response, seconds.
    """

    def __init__(self, *, most: int = MAX_LINGERING, linger_s: float = LINGER_S) -> None:
        self._most = most
        self._linger_s = linger_s
        self._open: set[_LastAnswer] = set()

    def __len__(self) -> int:
        """Number of lingering connections."""
        return len(self._open)

    def send(self, transport: asyncio.Transport, answer: bytes) -> None:
        """Write a last response and close gracefully; the connection's own protocol gets no more events."""
        if len(self._open) >= self._most:
            transport.write(answer)
            transport.close()
            return
        last_answer = _LastAnswer(self._open, transport, self._linger_s)
        transport.set_protocol(last_answer)
        transport.write(answer)
        with contextlib.suppress(OSError, NotImplementedError):  # it was reset, or is over TLS
            transport.write_eof()

    def close(self) -> None:
        """Close all lingering connections immediately."""
        for last_answer in list(self._open):
            last_answer.cut()


class _LastAnswer(asyncio.Protocol):
    """Drops received data until the client closes the connection or the time is up."""

    def __init__(self, others: set[_LastAnswer], transport: asyncio.Transport, linger_s: float) -> None:
        self._others = others
        self._transport = transport
        others.add(self)
        self._timer = asyncio.get_running_loop().call_later(linger_s, self.cut)

    def cut(self) -> None:
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._timer.cancel()
        self._others.discard(self)
