"""Acceptor: listening sockets, whose pending connections are accepted at once, up to a limit of connections.

An event loop accepts as little as one connection per iteration (uvloop does). Under load an iteration takes
tens of milliseconds, so hundreds of clients would wait in the backlog, invisible to admission control, while
connected clients are served promptly.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Final, cast

from kwiken.base.errors import InputError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.http_server.last_answers import MAX_LINGERING, LastAnswers
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.tls.handshakes import HANDSHAKE_S, MAX_HANDSHAKES, why_no_tls

LOG = logging.getLogger("kwiken.acceptor")
BACKLOG: Final = 1024  # connections that the kernel holds per socket
MAX_ACCEPTS_PER_CALLBACK: Final = 256  # connections accepted before other callbacks run
PAUSE_S: Final = 0.1  # pause without files or memory
LOG_EVERY_S: Final = 10.0  # shortest interval of log messages about a pause
# A name may have addresses of other hosts.
NOT_LOCAL: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def listen(host: str, port: int, *, shared: bool = False) -> list[socket.socket]:
    """Create sockets that listen at every address of a host, all on the same port.

    Args:
        host: name or address to bind to.
        port: port to bind to; 0 for any free port.
        shared: whether further sockets of this user may listen there too; the system then divides the
            connections among them.

    Raises:
        InputError: an address cannot be bound to.
    """
    return _bound(host, port, shared=shared, listening=True)


def reserve(host: str, port: int) -> list[socket.socket]:
    """Create sockets that hold a port for servers that share it: they do not listen, so they get no client.

    Only sockets of this user that share the port may listen there, and all others are refused.

    Args:
        host: name or address to bind to.
        port: port to bind to; 0 for any free port.

    Raises:
        InputError: an address cannot be bound to.
    """
    found = _bound(host, port, shared=True, listening=False)
    for sock in found:
        # Set while it was bound, so that connections that ended lately do not hold the port. Left set, any
        # program could listen here while none of the servers does.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    return found


def _bound(host: str, port: int, *, shared: bool, listening: bool) -> list[socket.socket]:
    found: list[socket.socket] = []
    try:
        told = dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE))
        for family, kind, number, _, address in told:
            try:
                sock = _bind(family, kind, number, address, found, shared=shared)
                found.append(sock)
                if listening:
                    sock.listen(BACKLOG)
            except OSError as error:
                if error.errno not in NOT_LOCAL or (not found and len(told) == 1):
                    raise
                last = error
        if not found:
            raise last
    except OSError as error:
        for sock in found:
            sock.close()
        raise InputError(why_not(error), where=f"{host}:{port}") from error
    return found


def _bind(
    family: int,
    kind: int,
    number: int,
    address: tuple[Any, ...],
    others: Sequence[socket.socket],
    *,
    shared: bool,
) -> socket.socket:
    sock = socket.socket(family, kind, number)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        port = others[0].getsockname()[1] if others else address[1]
        sock.bind((address[0], port, *address[2:]))
    except OSError:
        sock.close()
        raise
    return sock


def why_not(error: OSError) -> str:
    """Message for an address that could not be bound to."""
    if error.errno == errno.EADDRINUSE:
        return "the port is in use; choose another one"
    if error.errno == errno.EACCES:
        return "no permission to listen on this port"
    return f"cannot listen here: {error.strerror or error}"


class Acceptor:
    """Accepts connections from listening sockets.

    Args:
        sockets: listening sockets; the acceptor closes them.
        factory: creates the protocol of a new connection, once its handshake is over if it is over TLS.
        tls: certificates for connections over TLS; None for connections without.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        factory: Callable[[], asyncio.Protocol],
        *,
        tls: Certificates | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = sockets
        self._factory = factory
        self._tls = tls
        self._connecting: dict[asyncio.Task[object], None] = {}  # oldest first
        self._open = True
        self._logged_at = -inf
        for sock in sockets:
            sock.setblocking(False)
            self._loop.add_reader(sock.fileno(), self._accept, sock)

    @property
    def port(self) -> int:
        """Port that the sockets are bound to."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stop accepting and close the sockets."""
        if self._open:
            for sock in self._sockets:  # closing one resets the connections that wait in it
                self._accept(sock)
            self._open = False
            for sock in self._sockets:
                self._loop.remove_reader(sock.fileno())
                sock.close()

    def abort(self) -> None:
        """Stop accepting, and give up handshakes that are not over."""
        self.close()
        for task in list(self._connecting):
            task.cancel()

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(MAX_ACCEPTS_PER_CALLBACK):
            try:
                caller, _ = sock.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in OUT_OF_RESOURCES:
                    self._pause(sock, error)
                    return
                continue  # this client has disconnected already
            if self._tls is None:
                task = self._loop.create_task(self._connect(caller))
            else:
                if len(self._connecting) >= MAX_HANDSHAKES:  # the oldest is the least likely to be finished
                    oldest = next(iter(self._connecting))
                    del self._connecting[oldest]
                    oldest.cancel()
                task = self._loop.create_task(self._connect_by_tls(caller, self._tls))
            self._connecting[task] = None
            task.add_done_callback(self._connected)

    def _connected(self, task: asyncio.Task[object]) -> None:
        self._connecting.pop(task, None)

    async def _connect(self, caller: socket.socket) -> None:
        try:
            caller.setblocking(False)
            await self._loop.connect_accepted_socket(self._factory, caller)
        except OSError as error:
            LOG.debug("a client disconnected while it was accepted: %s", error)
            caller.close()

    async def _connect_by_tls(self, caller: socket.socket, tls: Certificates) -> None:
        try:
            caller.setblocking(False)
            await self._loop.connect_accepted_socket(
                self._factory, caller, ssl=tls.server, ssl_handshake_timeout=HANDSHAKE_S
            )
        except OSError as error:
            LOG.warning("no connection over TLS: %s", why_no_tls(error), extra=about(Event.NOT_TLS))
            caller.close()
        except asyncio.CancelledError:
            caller.close()
            raise

    def _pause(self, sock: socket.socket, error: OSError) -> None:
        """Pause without files or memory: an immediate retry would fail again and only cost time."""
        if self._loop.time() - self._logged_at > LOG_EVERY_S:
            self._logged_at = self._loop.time()
            LOG.error("no more connections for now: %s", error.strerror, extra=about(Event.CONNECTIONS_FULL))
        self._loop.remove_reader(sock.fileno())
        self._loop.call_later(PAUSE_S, self._resume, sock)

    def _resume(self, sock: socket.socket) -> None:
        if self._open:
            self._loop.add_reader(sock.fileno(), self._accept, sock)


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
