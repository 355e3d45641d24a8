"""Front door of the gateway over gRPC: the same requests and answers as over HTTP."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from typing import Any, Final

import grpc
import msgspec

from kwiken.otel.write.records import Entrance
from kwiken.runtime.base.errors import DeadlineError, OverloadError
from kwiken.runtime.base.log_events import Event, about
from kwiken.runtime.engine.executor import Answer
from kwiken.runtime.engine.hedged_call.context import Deliver
from kwiken.runtime.engine.timing import timing_of
from kwiken.runtime.gateway.front_door import FrontDoor
from kwiken.runtime.gateway.responses import BAD_GATEWAY, Failure, judge
from kwiken.runtime.gateway.settings import MAX_REQUEST
from kwiken.runtime.wire.grpc.incoming_messages import IncomingCall
from kwiken.runtime.wire.grpc.messages import answer_message, payload_message, payload_of
from kwiken.runtime.wire.grpc.server import GrpcServer, Send
from kwiken.runtime.wire.grpc.settings import ASK_METHOD, RETRY_PUSHBACK, STREAM_METHOD
from kwiken.runtime.wire.http_server.acceptor import max_connections
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import MAX_PRIORITY

LOG = logging.getLogger("kwiken.gateway")
OK: Final = "OK"
CANCELLED: Final = "CANCELLED"
CODES: Final[Mapping[int, grpc.StatusCode]] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    500: grpc.StatusCode.UNKNOWN,  # of a handler; an error of the gateway itself is INTERNAL
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
NEVER: Final = -1  # value of the retry pushback that tells a client not to send the request again
# Time that an answer takes to its client: when the client's own deadline passes, gRPC drops the answer.
RETURN_S: Final = 0.005
MAX_RETURN_SHARE: Final = 0.1  # of the time left, for short deadlines
MAX_REASON: Final = 1000  # characters; the reason goes into the metadata, whose size is limited


class GrpcGatewayServer:
    """gRPC server of a gateway.

    Args:
        port: port to listen on; 0 for any free port.
        doors: number of front doors of the process, which share its connections.
        shared: whether other gateways listen at the same port; the system then divides the connections among
            them.
        tls: certificates for connections over TLS; None for connections without.
    """

    def __init__(
        self,
        door: FrontDoor,
        *,
        host: str,
        port: int,
        doors: int = 2,
        shared: bool = False,
        tls: Certificates | None = None,
    ) -> None:
        self._door = door
        self._entries: dict[str, Entrance] = {}
        self._server = GrpcServer(
            ASK_METHOD,
            self._ask,
            host=host,
            port=port,
            max_body=MAX_REQUEST,
            budget=door.budget,
            connections=max_connections(doors=doors),
            shared=shared,
            tls=tls,
            streamed={STREAM_METHOD.rpartition("/")[2]: self._stream} if door.streams else {},
        )

    @property
    def url(self) -> str:
        """URL of the server, once started."""
        return self._server.url

    async def start(self) -> None:
        """Listen for requests.

        Raises:
            InputError: the address cannot be bound to.
        """
        await self._server.start()
        self._entries = {
            method: Entrance(self._server.url, method.removeprefix("/"), "", _status_sent)
            for method in (ASK_METHOD, STREAM_METHOD)
        }
        self._server.report_ready()

    async def report_stopping(self) -> None:
        """Report the gateway as unhealthy, so that balancers send requests elsewhere."""
        self._server.report_stopping()

    async def stop(self) -> None:
        """Close all connections and cancel what they wait for."""
        await self._server.stop()

    async def _ask(self, call: IncomingCall) -> bytes:
        """Answer a request at once."""
        return await self._serve(call, ASK_METHOD)

    async def _stream(self, call: IncomingCall, send: Send) -> None:
        """Send the items of an answer as they come, and its end."""

        async def deliver(items: list[Any]) -> None:
            for item in items:
                await send(payload_message(msgspec.json.encode(item)))

        end = await self._serve(call, STREAM_METHOD, deliver)
        if end:
            await send(end)

    async def _serve(self, call: IncomingCall, method: str, deliver: Deliver | None = None) -> bytes:
        """Run a request; returns the message of its answer, or none for an error, which the status tells."""
        door, context = self._door, call.context
        door.enter()
        try:
            headers = dict(context.invocation_metadata())
            deadline_ms = _deadline_ms(context.time_remaining())
            priority = wire.read_whole(headers, wire.PRIORITY, low=-MAX_PRIORITY, high=MAX_PRIORITY) or 0
            parent = wire.parse_traceparent(headers.get(wire.TRACEPARENT))
            timing = headers.get(wire.TIMING) == "1"
            door.turn_away(deadline_ms=deadline_ms, priority=priority, parent=parent)
            try:
                message = await call.message(priority)
            except (OverloadError, DeadlineError) as error:
                door.note_unread(error, priority=priority, parent=parent)
                raise
            answer = await door.answer(
                payload_of(message),
                deadline_ms=deadline_ms,
                priority=priority,
                parent=parent,
                timing=timing,
                headers=headers,
                entry=self._entries[method],
                deliver=deliver,
            )
            json = msgspec.json.encode(answer.value) if deliver is None else b""
            return _message_of(answer, json, timing=timing)
        except Exception as error:
            found = judge(error)
            if found.is_own:
                LOG.exception("request failed", extra=about(Event.REQUEST_ERROR))
            _tell(found, context)
            return b""
        finally:
            door.leave()


def _message_of(answer: Answer, json: bytes, *, timing: bool) -> bytes:
    """Message of an answer, with the timing of its request if it was asked for."""
    record = answer.record if timing else None
    return answer_message(
        json,
        partial=answer.partial,
        utility=round(answer.utility, 6) if answer.partial else 1.0,
        timing_json=msgspec.json.encode(timing_of(record)) if record is not None else b"",
    )


def _deadline_ms(remaining_s: float | None) -> float | None:
    """Time that a request may take, milliseconds; None without a deadline."""
    if remaining_s is None:
        return None
    own_s = remaining_s - min(RETURN_S, MAX_RETURN_SHARE * remaining_s)
    return min(own_s * 1e3, wire.MAX_DEADLINE_MS)


def _code_of(found: Failure) -> grpc.StatusCode:
    """Code of gRPC for a failed request."""
    if found.is_own:
        return grpc.StatusCode.INTERNAL
    return grpc.StatusCode.RESOURCE_EXHAUSTED if found.is_overload else CODES[found.status]


def _status_sent(error: BaseException | None) -> str:
    """Name of the code that a request's client is sent for an error, None for an answer."""
    if error is None:
        return OK
    return CANCELLED if isinstance(error, asyncio.CancelledError) else str(_code_of(judge(error)).name)


def _tell(found: Failure, context: Any) -> None:
    """Set status and metadata of a failed request."""
    context.set_code(_code_of(found))
    context.set_details(found.reason[:MAX_REASON])
    if found.retry_after_s is not None:
        context.set_trailing_metadata(((RETRY_PUSHBACK, str(math.ceil(found.retry_after_s * 1e3))),))
    elif found.status == BAD_GATEWAY:  # the request may have run
        context.set_trailing_metadata(((RETRY_PUSHBACK, str(NEVER)),))
