"""Interim responses that distinguish a half-closed client from one that has disconnected.

To a server both look the same: the client's half of the connection ends. HTTP lets a client end its half
after the request and still read the response (RFC 9112, section 9.6), yet work for a client that has
disconnected should be cancelled. So the server sends `100 Continue` repeatedly, which every HTTP/1.1 client
ignores (RFC 9110, section 15.2). The kernel of a client that has disconnected answers with a reset, and the
next write ends the connection.
"""

from __future__ import annotations

import asyncio
from typing import Final

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
FIRST_S: Final = 0.001
LONGEST_S: Final = 1.0


class DisconnectCheck:
    """Repeated interim responses on one half-closed connection until the request is answered."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._wait_s = 0.0  # a client on the same machine is detected at once
        self._timer: asyncio.TimerHandle | None = None
        self._ask()

    def _ask(self) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(CONTINUE)
        self._timer = self._loop.call_later(self._wait_s, self._ask)
        self._wait_s = min(max(FIRST_S, 2 * self._wait_s), LONGEST_S)

    def stop(self) -> None:
        """Stop: the response follows, or the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
