"""Limit of the connections that a server holds: those beyond are told so, whatever loop it runs on."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from typing import Final, cast

from kwiken.runtime.http_server.last_answers import MAX_LINGERING, LastAnswers

MAX_CONNECTIONS: Final = 4096
SHARE_OF_FILES: Final = 0.8  # the rest is for connections to replicas, and all else
SHARE_LINGERING: Final = 0.05


class ConnectionLimit(asyncio.Protocol):
    """Protocol of a new connection until it is clear whether there is room for it.

    Only once a connection is made does it count, so only then can it be told whether there are too many: the
    loop makes the protocols of all that wait at the door before it opens the first.

    Args:
        room: makes the protocol of one that has room; None where there is none.
        last_answers: takes those without.
        full: their answer.
    """

    def __init__(
        self, room: Callable[[], asyncio.Protocol | None], last_answers: LastAnswers, full: bytes
    ) -> None:
        self._room = room
        self._last_answers = last_answers
        self._full = full

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        connection = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        protocol = self._room()
        if protocol is None:
            self._last_answers.send(connection, self._full)
        else:
            connection.set_protocol(protocol)
            protocol.connection_made(connection)


def max_connections() -> int:
    """How many callers can be held at once without running out of files."""
    return _bounded(SHARE_OF_FILES, MAX_CONNECTIONS)


def max_lingering() -> int:
    """How many callers that are turned away may be waited for at once."""
    return _bounded(SHARE_LINGERING, MAX_LINGERING)


def _bounded(share: float, most: int) -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if files == resource.RLIM_INFINITY else max(1, min(most, int(share * files)))
