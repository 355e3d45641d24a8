"""Connection limit of a server: connections beyond it get an error response, under any event loop."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from typing import Final, cast

from kwiken.runtime.wire.http_server.last_answers import MAX_LINGERING, LastAnswers

MAX_CONNECTIONS: Final = 4096
SHARE_OF_FILES: Final = 0.8  # of all doors together; the rest is for calls to replicas and other files
SHARE_LINGERING: Final = 0.05  # of the files, for connections that are closing


class ConnectionLimit(asyncio.Protocol):
    """Protocol of a new connection until the limit is checked.

    A connection counts only once it is made, so the check must come then: the loop creates the protocols of
        all
    pending connections before it makes the first of them.

    Args:
        room: creates the protocol of a connection within the limit; returns None beyond it.
        last_answers: sends the response to connections beyond the limit.
    """

    def __init__(
        self, room: Callable[[], asyncio.Protocol | None], last_answers: LastAnswers, full: bytes
    ) -> None:
        self._room = room
        self._last_answers = last_answers
        self._full = full

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        connection = cast("asyncio.Transport", transport)  # uvloop's has its methods but not its base class
        protocol = self._room()
        if protocol is None:
            self._last_answers.send(connection, self._full)
        else:
            connection.set_protocol(protocol)
            protocol.connection_made(connection)


def max_connections(*, doors: int = 1) -> int:
    """Largest number of connections of one door that leaves enough files for everything else.

    Args:
        doors: number of servers of this process that take connections. Each gets the same part: gRPC's core
            takes a fixed limit, and does not say how many connections it has.
    """
    return _bounded(SHARE_OF_FILES / doors, MAX_CONNECTIONS)


def max_lingering() -> int:
    """Largest number of refused connections that may linger at once."""
    return _bounded(SHARE_LINGERING, MAX_LINGERING)


def _bounded(share: float, most: int) -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if files == resource.RLIM_INFINITY else max(1, min(most, int(share * files)))
