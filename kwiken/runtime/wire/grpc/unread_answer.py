"""Answer that a gRPC client may not read: charged until it is sent, and limited in time.

gRPC's core keeps an answer as long as the client's flow control leaves no room for it, and neither tells how
much of it is left nor lets a server end the call. So the bytes are charged until the call has ended. A client
that takes too long loses its connection: the socket is shut down, which the core treats as a hang-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.http_server.byte_budget import ByteBudget, HeldBytes
from kwiken.runtime.wire.http_server.send_progress import SEND_S

LOG = logging.getLogger("kwiken.gateway")
OPEN_FILES: Final = Path("/proc/self/fd")
COPIES: Final = 2  # of an answer: grpcio's and the core's
CALL_BYTES: Final = 40 << 10  # held for a call beside its answer, by grpcio and its core
LEAST_BYTES_PER_S: Final = 256 << 10  # by which a client has longer for a long answer


class UnreadAnswer:
    """Answer of one call from the moment at which it is handed to gRPC.

    Args:
        budget: budget of the bytes that are held for all clients.
    """

    def __init__(self, budget: ByteBudget) -> None:
        self._most = budget.most
        self._held = HeldBytes(budget, free=0)
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, size: int, peer: str) -> bool:
        """Charge an answer until the present task, which is grpcio's and sends it, ends.

        Args:
            size: length of the answer, bytes.
            peer: the client as gRPC names it.

        Returns:
            Whether the budget has room for the answer.
        """
        # A budget that does not hold a long answer has room for one at a time.
        if not self._held.hold(min(COPIES * size + CALL_BYTES, self._most)):
            self._held.release()
            return False
        limit_s = SEND_S + size / LEAST_BYTES_PER_S
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._hang_up, peer)
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(self._end)
        return True

    def _end(self, task: object) -> None:
        del task
        self._held.release()
        if self._timer is not None:
            self._timer.cancel()

    def _hang_up(self, peer: str) -> None:
        LOG.warning(
            "a client did not read its answer in time; its connection is closed",
            extra=about(Event.REQUEST_ERROR),
        )
        hang_up(peer)


def hang_up(peer: str) -> None:
    """Shut down this process' connection with a client.

    Args:
        peer: the client as gRPC names it, for example `ipv4:127.0.0.1:50000`.
    """
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    client = host.strip("[]"), port
    for file in OPEN_FILES.iterdir():
        # An error: no socket, one without a peer, or closed meanwhile.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(file.name))) as sock:
            address = sock.getpeername()
            if isinstance(address, tuple) and (address[0], str(address[1])) == client:
                sock.shutdown(socket.SHUT_RDWR)
