"""gRPC server of one port: methods of ours, health, reflection, limits, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import grpc
from grpc import aio

from kwiken.base.errors import InputError
from kwiken.runtime.base.errors import OverloadError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.wire.grpc.incoming_messages import RETRY_S, IncomingCall, IncomingMessages
from kwiken.runtime.wire.grpc.settings import MAX_OVERHEAD, RETRY_PUSHBACK, server_options
from kwiken.runtime.wire.grpc.standard_services import StandardServices
from kwiken.runtime.wire.http_server.acceptor import listen
from kwiken.runtime.wire.http_server.byte_budget import ByteBudget, HeldBytes
from kwiken.runtime.wire.http_server.send_progress import SEND_S
from kwiken.runtime.wire.tls.certificates import Certificates


def server_credentials(certificates: Certificates) -> Any:
    """Credentials of a server; each new connection gets the certificate that is in force then.

    gRPC's core asks for the certificate from threads of its own, before each handshake.
    """
    seen = certificates.version

    def fetch() -> Any:
        nonlocal seen
        if certificates.version == seen:
            return None  # as before
        seen = certificates.version
        return _configuration(certificates)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(certificates),
        fetch,
        require_client_authentication=certificates.files.authorities is not None,
    )


def _configuration(certificates: Certificates) -> Any:
    certificate, key, authorities = certificates.pem
    return grpc.ssl_server_certificate_configuration(((key, certificate),), root_certificates=authorities)


Send = Callable[[bytes], Awaitable[None]]
Method = Callable[[IncomingCall], Awaitable[bytes]]
Streamed = Callable[[IncomingCall, Send], Awaitable[None]]
FAREWELL_S: Final = 0.25  # the longest wait, at the end, for clients to close their connections
LOG = logging.getLogger("kwiken.gateway")
OPEN_FILES: Final = Path("/proc/self/fd")
NO_ROOM: Final = "too many bytes of answers are held; try again later"
MAPPED: Final = "::ffff:"
COPIES: Final = 2  # of an answer: grpcio's and the core's
CALL_BYTES: Final = 40 << 10  # held for a call beside its answer, by grpcio and its core
MIN_BYTES_PER_S: Final = 256 << 10  # by which a client has longer for a long answer


# gRPC's core keeps an answer as long as the client's flow control leaves no room for it, and neither tells
# how much of it is left nor lets a server end the call. So the bytes are charged until the call has ended.
# A client that takes too long loses its connection: the socket is shut down, which the core treats as a
# hang-up.
class UnreadAnswer:
    """Messages of one call, each from the moment at which it is handed to gRPC; made by the call's own task.

    Args:
        budget: budget of the bytes that are held for all clients.
    """

    def __init__(self, budget: ByteBudget) -> None:
        self._most = budget.most
        self._held = HeldBytes(budget, free=0)
        self._timer: asyncio.TimerHandle | None = None
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(self.end)

    def begin(self, size: int, peer: str) -> bool:
        """Charge a message until `end`, or until the present task, which is grpcio's and sends it, ends.

        Args:
            size: length of the message, bytes.
            peer: the client as gRPC names it.

        Returns:
            Whether the budget has room for the message.
        """
        # A budget that does not hold a long answer has room for one at a time.
        if not self._held.hold(min(COPIES * size + CALL_BYTES, self._most)):
            self._held.release()
            return False
        limit_s = SEND_S + size / MIN_BYTES_PER_S
        self._timer = asyncio.get_running_loop().call_later(limit_s, self._hang_up, peer)
        return True

    def end(self, _: object = None) -> None:
        """The client has taken the message, or the call has ended."""
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
            # gRPC's sockets are IPv6, with IPv4's addresses mapped into it, which its names do not show.
            if isinstance(address, tuple) and (address[0].removeprefix(MAPPED), str(address[1])) == client:
                sock.shutdown(socket.SHUT_RDWR)


class GrpcServer:
    """gRPC server of one service.

    Args:
        method: name of the method that answers once, as `/PACKAGE.SERVICE/METHOD`.
        handler: answers a call, whose message it asks for; cancelled when the client cancels, its deadline
            passes or its connection is lost.
        streamed: handlers of further methods of the same service by their names, such as `METHOD`; each sends
            its messages itself, one after the other.
        port: port to listen on; 0 for any free port.
        max_body: longest payload of a message, bytes.
        budget: budget of the bytes that are held for all clients together.
        shared: whether other servers of this user may listen at the same port; the system then divides the
            connections among them.
        tls: certificates for connections over TLS; None for connections without.
    """

    def __init__(
        self,
        method: str,
        handler: Method,
        *,
        host: str,
        port: int,
        max_body: int,
        budget: ByteBudget,
        connections: int,
        shared: bool = False,
        tls: Certificates | None = None,
        streamed: Mapping[str, Streamed] = {},
    ) -> None:
        self._tls = tls
        self._streamed = streamed
        self._budget = budget
        self._method = method
        self._handler = handler
        self._host = f"[{host}]" if ":" in host else host
        self._port = port
        self._max_body = max_body
        self._connections = connections
        self._shared = shared
        self._server: Any = None
        self._messages: IncomingMessages | None = None
        self._standard: StandardServices | None = None

    @property
    def url(self) -> str:
        """URL of the server, once started."""
        return f"grpc://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen; the server is not healthy yet.

        Raises:
            InputError: the address cannot be bound to.
        """
        service, _, name = self._method.strip("/").partition("/")
        server = aio.server(
            options=server_options(
                max_body=self._max_body, connections=self._connections, shared=self._shared
            )
        )
        self._messages = IncomingMessages(self._budget, max_message=self._max_body + MAX_OVERHEAD)
        # As a stream of messages, of which one is read: gRPC asks for a single message by itself, and then
        # holds whatever has come of it.
        methods = {name: grpc.stream_unary_rpc_method_handler(self._answer)}
        for each, handler in self._streamed.items():
            methods[each] = grpc.stream_stream_rpc_method_handler(partial(self._stream, handler))
        server.add_registered_method_handlers(service, methods)
        self._standard = StandardServices(service, self._messages)
        server.add_generic_rpc_handlers(self._standard.handlers())
        self._port = self._bind(server)
        self._server = server
        await server.start()

    def report_ready(self) -> None:
        """Report the server as healthy from now on."""
        if self._standard is not None:
            self._standard.health.report_ready()

    def report_stopping(self) -> None:
        """Report the server as unhealthy from now on."""
        if self._standard is not None:
            self._standard.health.report_stopping()

    async def stop(self) -> None:
        """Close all connections, and cancel the handlers that still run a little later.

        Clients are told first that the connection takes no more calls. A call that one of them sends at that
        moment then counts as refused. If connections were cut at once, nobody would know whether it ran.
        """
        if self._standard is not None:
            self._standard.health.end_watches()
        if self._server is not None:
            await self._server.stop(FAREWELL_S)
            self._server = None

    async def _answer(self, requests: Any, context: Any) -> bytes:
        del requests  # the context gives them too, one by one
        assert self._messages is not None
        call = IncomingCall(context, self._messages, self._budget)
        try:
            answer = await self._handler(call)
        finally:
            call.release()
        if context.code() in {None, grpc.StatusCode.OK}:  # refusals have no bytes that would have to fit
            if UnreadAnswer(self._budget).begin(len(answer), context.peer()):
                return answer
            context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
            context.set_details(NO_ROOM)
            context.set_trailing_metadata(((RETRY_PUSHBACK, str(round(RETRY_S * 1e3))),))
        del answer  # which the error would hold
        # Not by a return, with which grpcio sends an empty message before the status: a client that takes no
        # bytes would hold the call for good.
        try:
            await context.abort(context.code(), context.details())
        finally:
            del call, context  # the context holds this error, whose traceback holds this frame
        raise AssertionError("an abort raises")

    async def _stream(self, handler: Streamed, requests: Any, context: Any) -> None:
        del requests
        assert self._messages is not None
        call = IncomingCall(context, self._messages, self._budget)
        unread = UnreadAnswer(self._budget)

        async def send(message: bytes) -> None:
            if not unread.begin(len(message), context.peer()):
                raise OverloadError(NO_ROOM, retry_after_s=RETRY_S)
            await context.write(message)
            unread.end()  # not after an error: what gRPC has of the message stays until the call ends

        try:
            await handler(call, send)
        finally:
            call.release()

    def _bind(self, server: Any) -> int:
        """Bind a server to the address; returns its port.

        Raises:
            InputError: the address cannot be bound to.
        """
        address = f"{self._host}:{self._port}"
        try:
            if self._tls is None:
                bound: int = server.add_insecure_port(address)
            else:
                bound = server.add_secure_port(address, server_credentials(self._tls))
        except RuntimeError as error:
            # gRPC does not say why; this raises the reason.
            for sock in listen(self._host.strip("[]"), self._port, shared=self._shared):
                sock.close()
            raise InputError(str(error), where=address) from error
        return bound
