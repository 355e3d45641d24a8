"""Interim responses that tell a caller who has only stopped sending from one who is gone.

To a server both look the same: the caller's half of the connection ends. HTTP lets a caller end its half
after the request and read the answer (RFC 9112, section 9.6), yet work for one who is gone should be
cancelled. So the caller is sent `100 Continue` again and again, which every client of HTTP/1.1 passes over
(RFC 9110, section 15.2). The kernel of one who is gone answers with a reset, and the write after that ends
the connection.
"""

from __future__ import annotations

import asyncio
from typing import Final

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
FIRST_S: Final = 0.001
LONGEST_S: Final = 1.0


class GoneCheck:
    """Interim responses on one connection whose caller has stopped sending, until it is answered.

    Args:
        transport: of the connection.
        loop: that it belongs to.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._wait_s = 0.0  # the kernel of this very machine answers at once
        self._timer: asyncio.TimerHandle | None = None
        self._ask()

    def _ask(self) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(CONTINUE)
        self._timer = self._loop.call_later(self._wait_s, self._ask)
        self._wait_s = min(max(FIRST_S, 2 * self._wait_s), LONGEST_S)

    def stop(self) -> None:
        """Ask no more: the answer follows, or the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
