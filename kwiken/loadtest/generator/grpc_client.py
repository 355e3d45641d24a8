"""gRPC client of a gateway for the load generator: calls run on gRPC's own threads, greenlets wait for them.

gRPC's threads and gevent's loop meet in one watcher, which gRPC's threads wake. So nothing of the standard
library is patched; where Locust's own command has patched threads, gRPC's would block the loop.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Final

import gevent
import grpc
from gevent import monkey
from gevent.event import Event

from kwiken.base.errors import InputError
from kwiken.base.printable import printable
from kwiken.base.varints import read_varint, varint
from kwiken.loadtest.inputs.headers import Headers
from kwiken.loadtest.inputs.queries import Queries
from kwiken.loadtest.inputs.settings import LoadTarget
from kwiken.loadtest.results.outcome import SentRequest

MAX_ANSWER: Final = 64 * 1024 * 1024
MAX_DETAILS: Final = 300  # characters of a status that are quoted
OK: Final = 200
# Statuses that a gateway gives, as HTTP's, which the records have. Others may be the connection's.
STATUSES: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNIMPLEMENTED: 501,
}
CHECK_S: Final = 5.0  # within which the first connection must be there
OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_ANSWER),
    ("grpc.use_local_subchannel_pool", 1),
)
_JSON: Final = b"\x0a"  # field 1 of a request, of a length that follows
_UTILITY: Final = 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types of protobuf


class _Waiting:
    """Call that a greenlet waits for."""

    __slots__ = ("call", "done")

    def __init__(self) -> None:
        self.call: Any = None
        self.done = Event()


class GrpcClient:
    """gRPC client for one gateway and a fixed set of requests.

    Args:
        queries: JSON bodies of requests; `send` takes the index of one.
        timeout_s: time limit of one whole request, seconds.
        headers: metadata of every request.

    Raises:
        InputError: threads were patched, so that gRPC cannot run beside gevent; or a file of the certificates
            that the environment names cannot be used.
    """

    def __init__(
        self, target: LoadTarget, queries: Queries, *, timeout_s: float, headers: Headers = ()
    ) -> None:
        if monkey.is_module_patched("threading"):
            raise InputError(
                "needs kwiken load: Locust's own command patches the threads of gRPC", where="grpc://"
            )
        self._where = target.authority
        self._timeout_s = timeout_s
        self._metadata = tuple((name.lower(), value) for name, value in headers)
        self._requests = tuple(_JSON + varint(len(body)) + body for body in queries.bodies)
        self._channel = _channel_to(target)
        self._ask = self._channel.unary_unary(target.path)
        self._ended: deque[_Waiting] = deque()
        self._watcher = gevent.get_hub().loop.async_()
        self._watcher.start(self._wake)
        self.first_failure: str | None = None

    def send(self, query: int, traceparent: str) -> SentRequest:
        """Send one request and wait for its answer; see `Client.send`.

        Returns:
            HTTP's status for gRPC's, and the rest as over HTTP.
        """
        waiting = _Waiting()
        waiting.call = call = self._ask.future(
            self._requests[query],
            timeout=self._timeout_s,
            metadata=(*self._metadata, ("traceparent", traceparent)),
        )
        call.add_done_callback(lambda _: self._tell(waiting))
        try:
            waiting.done.wait()
        except BaseException:  # the run is over
            call.cancel()
            raise
        code = call.code()
        if code is grpc.StatusCode.OK:
            answer = call.result()
            return SentRequest(OK, None, len(answer), utility_of(answer))
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return SentRequest(0, "timeout", 0)
        if self.first_failure is None:
            details = printable(" ".join((call.details() or "").split()), most=MAX_DETAILS)
            self.first_failure = f"gRPC {code.name}: {details}"
        return SentRequest(STATUSES.get(code, 0), f"gRPC {code.name}", 0)

    def _tell(self, waiting: _Waiting) -> None:
        """Called on a thread of gRPC's."""
        self._ended.append(waiting)
        self._watcher.send()

    def _wake(self) -> None:
        while self._ended:
            self._ended.popleft().done.set()

    def check(self) -> None:
        """Open the connection.

        Raises:
            InputError: the gateway cannot be reached.
        """
        ready = grpc.channel_ready_future(self._channel)
        waiting = _Waiting()
        ready.add_done_callback(lambda _: self._tell(waiting))
        if not waiting.done.wait(min(self._timeout_s, CHECK_S)):
            ready.cancel()
            raise InputError("cannot be reached: timeout", where=self._where)

    def close(self) -> None:
        """Close the connection."""
        self._watcher.stop()
        self._watcher.close()
        self._channel.close()


def _channel_to(target: LoadTarget) -> Any:
    """Channel to a target, over TLS with the certificates that the environment names."""
    if not target.tls:
        return grpc.insecure_channel(target.authority, options=OPTIONS)
    from kwiken.runtime.wire.tls.clients import ClientTls

    return grpc.secure_channel(
        target.authority, grpc.ssl_channel_credentials(*ClientTls().pem()), options=OPTIONS
    )


def utility_of(answer: bytes) -> float:
    """Utility that a gateway's answer states, from 0 to 1; 1 for a message that is none of a gateway's.

    A field that is 0 is left out of a message, so an answer without the field has none.
    """
    at, utility = 0, 0.0
    try:
        while at < len(answer):
            key, at = read_varint(answer, at)
            kind = key & 7
            if kind == _FIXED64:
                if key >> 3 == _UTILITY:
                    (utility,) = struct.unpack_from("<d", answer, at)
                at += 8
            elif kind == _FIXED32:
                at += 4
            elif kind in {_VARINT, _BYTES}:
                value, at = read_varint(answer, at)
                at += value if kind == _BYTES else 0
            else:
                return 1.0
    except (InputError, struct.error):
        return 1.0
    return utility if 0 <= utility <= 1 else 1.0
