"""Time limit for clients that do not read what was sent to them."""

from __future__ import annotations

import asyncio
from typing import Final

SEND_S: Final = 30.0  # longest time in which a client reads neither the least progress nor all that is left
MIN_PROGRESS: Final = 16 << 10  # bytes
HIGH_WATER: Final = 16 << 10  # unsent bytes of one connection from which on its next request waits


class SendProgress:
    """Progress of one client in reading its answers.

    Args:
        limit_s: longest time without progress, seconds.
    """

    __slots__ = ("_left", "_limit_s", "_since")

    def __init__(self, limit_s: float = SEND_S) -> None:
        self._limit_s = limit_s
        self._left = 0  # unsent bytes when progress was made last, and those that came to them
        self._since = 0.0

    def restart(self, transport: asyncio.WriteTransport | None, now: float) -> None:
        """Note that the client has read nearly all that was sent; `now` as of `is_stalled`."""
        self._left = transport.get_write_buffer_size() if transport is not None else 0
        self._since = now

    def is_stalled(self, transport: asyncio.WriteTransport | None, now: float) -> bool:
        """Whether the client takes too long; to be asked every few seconds.

        Args:
            now: present moment, seconds.
        """
        left = transport.get_write_buffer_size() if transport is not None else 0
        if not left or not self._left or left <= self._left - MIN_PROGRESS:
            self._left, self._since = left, now
        elif left > self._left:
            self._left = left
        return left > 0 and now - self._since > self._limit_s
