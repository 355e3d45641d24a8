"""Last answers on connections that are closed with the caller's bytes still unread.

A kernel that closes a socket with unread bytes resets the connection, and a reset takes the answer away
that the caller has not read yet (RFC 9112, section 9.6). So the answer is written, the sending half is
closed, and what the caller still sends is dropped for a short while.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

LINGER_S: Final = 1.0
MAX_LINGERING: Final = 64


class LastAnswers:
    """Connections that have got their last answer and are not closed yet.

    Args:
        most: of them at once; what comes beyond is closed right after its answer.
        linger_s: seconds that a caller has to read its answer.
    """

    def __init__(self, *, most: int = MAX_LINGERING, linger_s: float = LINGER_S) -> None:
        self._most = most
        self._linger_s = linger_s
        self._open: set[_LastAnswer] = set()

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    def send(self, transport: asyncio.Transport, answer: bytes) -> None:
        """Write a last answer and close, in good order; the connection's own protocol hears no more of it."""
        if len(self._open) >= self._most:
            transport.write(answer)
            transport.close()
            return
        farewell = _LastAnswer(self._open, transport, self._linger_s)
        transport.set_protocol(farewell)
        transport.write(answer)
        with contextlib.suppress(OSError):  # the caller has reset the connection
            transport.write_eof()

    def close(self) -> None:
        """Close them all at once."""
        for farewell in list(self._open):
            farewell.cut()


class _LastAnswer(asyncio.Protocol):
    """Drops what comes until the caller closes, or the time is up."""

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
