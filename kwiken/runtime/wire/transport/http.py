"""HTTP transport: sends calls to replica servers and maps their responses to the runtime's errors."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Final, NamedTuple, NoReturn, Self

from kwiken.base.errors import InputError
from kwiken.model.service.service import Service
from kwiken.runtime.base.clock import Clock, SystemClock
from kwiken.runtime.base.errors import DeadlineError, HandlerError, LostError, RefusedError
from kwiken.runtime.base.event_loop import cancel_and_wait
from kwiken.runtime.wire.tls.certificates import Certificates
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.call_bodies import (
    MAX_ADDRESSES,
    CallBodies,
    failure_of_handler,
    is_replicas,
    load_of,
    strange_answer,
)
from kwiken.runtime.wire.transport.http_pool import (
    BrokenReplyError,
    NoConnectionError,
    Pool,
    UnreadReplyError,
)

OK: Final = 200
NOT_RUN: Final = frozenset({404, 405, 413, 421, 501})
TIMED_OUT: Final = 504
MAX_EARLY_S: Final = 0.05  # remaining time from which on a replica's report of a missed deadline is rejected
PROBE_TIMEOUT_S: Final = 5.0  # timeout of a probe


@contextlib.contextmanager
def map_errors(stage: str, replica: Replica) -> Iterator[None]:
    """Translate errors of connections into the runtime's errors; the only place that knows both."""
    try:
        yield
    except NoConnectionError as error:
        raise RefusedError(f"stage {stage!r}: replica {replica.id}: no connection: {error}") from error
    except BrokenReplyError as error:
        raise LostError(f"stage {stage!r}: replica {replica.id}: {error}") from error
    except UnreadReplyError as error:
        _refuse(error.status, error.headers, stage, replica, "")
        if error.too_long and error.status == OK and is_replicas(error.headers):
            message = f"replica {replica.id}: {error}"
            raise HandlerError(stage, "ReplyTooLarge", message) from error
        raise LostError(
            f"stage {stage!r}: replica {replica.id}: not a replica's answer: {error.status}, and {error}"
        ) from error


class HttpEndpoint(NamedTuple):
    """Address of a replica with precomputed parts of requests: the constant part of a head, and a probe."""

    host_and_port: tuple[str, int]
    head: str
    probe: bytes


class HttpTransport:
    """Sends calls to replica servers over kept-alive connections; use as an asynchronous context manager.

    Args:
        service: service whose stages are called; the annotations of its handlers give the types of answers.
        clock: clock of the executor, by which deadlines are given; None for the system's.
        max_body: longest answer, bytes; a longer one is an error.
        raw: whether to leave answers undecoded, to be passed on as received; see `CallBodies`.
        tls: certificates for calls over TLS; None for calls without.
    """

    def __init__(
        self,
        service: Service,
        *,
        clock: Clock | None = None,
        max_body: int = wire.MAX_BODY,
        raw: bool = False,
        tls: Certificates | None = None,
    ) -> None:
        self._tls = tls
        self._clock = clock if clock is not None else SystemClock()
        self._max_body = max_body
        self._bodies = CallBodies(service, raw=raw)
        self._endpoints: dict[str, HttpEndpoint] = {}
        self._pool: Pool | None = None
        self._probes: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Open the pool of connections."""
        self._pool = Pool(max_body=self._max_body, now=self._clock.monotonic, tls=self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop every probe and close every connection."""
        await cancel_and_wait(tuple(self._probes))
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Send one call; see `Transport`. Cancelling closes the connection, which cancels at the replica."""
        assert self._pool is not None, "use the transport as an asynchronous context manager"
        remaining_ms = (call.deadline - self._clock.monotonic()) * 1e3
        if remaining_ms <= 0:
            raise DeadlineError(f"stage {call.stage!r}: the deadline passed before the call was sent")
        endpoint = self._endpoints.get(replica.address) or self._endpoint(replica)
        body = self._bodies.encode(call)
        request = _head(endpoint, call, min(remaining_ms, wire.MAX_DEADLINE_MS), len(body)) + body
        with map_errors(call.stage, replica):
            status, headers, data = await self._pool.exchange(endpoint.host_and_port, request, call)
        call.status = status
        if status != OK:
            early = self._clock.monotonic() < call.deadline - MAX_EARLY_S
            _raise(status, headers, data, call.stage, replica, early=early)
        try:
            load = load_of(headers)
        except InputError as error:
            raise strange_answer(call.stage, replica, error) from error
        return self._bodies.reply(call.stage, replica, load, data)

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Probe `/livez`; see `Transport`."""
        if self._pool is None:
            return
        task = asyncio.get_running_loop().create_task(self._ask(self._pool, replica, heard))
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _ask(self, pool: Pool, replica: Replica, heard: Callable[[bool], None]) -> None:
        alive = False  # also if the replica ends or does not answer in time
        with contextlib.suppress(
            TimeoutError, RefusedError, NoConnectionError, BrokenReplyError, UnreadReplyError
        ):
            endpoint = self._endpoints.get(replica.address) or self._endpoint(replica)
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                reply = await pool.exchange(endpoint.host_and_port, endpoint.probe)
                alive = reply.status == OK
        heard(alive)

    def _endpoint(self, replica: Replica) -> HttpEndpoint:
        """Parse the address of a replica, and cache the result."""
        try:
            endpoint = wire.split_address(replica.address, where=f"replica {replica.id}")
        except InputError as error:
            raise RefusedError(str(error)) from error
        if len(self._endpoints) >= MAX_ADDRESSES:
            self._endpoints.clear()
        authority = replica.address.removeprefix("http://")
        found = self._endpoints[replica.address] = HttpEndpoint(
            endpoint,
            f"POST {wire.CALL_PATH} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: {wire.MSGPACK}\r\n",
            f"GET /livez HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("ascii"),
        )
        return found


def _head(endpoint: HttpEndpoint, call: Call, remaining_ms: float, length: int) -> bytes:
    """Head of a request. Stage names and addresses were checked, so they contain no line breaks."""
    trace = f"{wire.TRACEPARENT}: {call.traceparent}\r\n" if call.traceparent else ""
    more = f"{wire.THREADS}: {call.threads}\r\n" if call.threads > 1 else ""
    return (
        f"{endpoint.head}Content-Length: {length}\r\n"
        f"{wire.STAGE}: {call.stage}\r\n{wire.SHARD}: {call.shard}\r\n{wire.ATTEMPT}: {call.attempt}\r\n"
        f"{wire.DEADLINE}: {remaining_ms:.1f}\r\n{wire.PRIORITY}: {call.priority}\r\n{more}{trace}\r\n"
    ).encode("ascii")


def _refuse(status: int, headers: Mapping[str, str], stage: str, replica: Replica, text: str) -> None:
    """Raise RefusedError if a response is a refusal."""
    at = f"stage {stage!r}: replica {replica.id}"
    if wire.REFUSED in headers:
        full = headers[wire.REFUSED] == wire.FULL
        raise RefusedError(f"{at}: refused with {status}: {text}", full=full)
    if status in NOT_RUN and not is_replicas(headers):
        raise RefusedError(f"{at}: answered {status}, so it is not a replica")


def _raise(
    status: int, headers: Mapping[str, str], data: bytes, stage: str, replica: Replica, *, early: bool
) -> NoReturn:
    """Raise the error that a response other than 200 stands for."""
    _refuse(status, headers, stage, replica, data[:200].decode(errors="replace"))
    at = f"stage {stage!r}: replica {replica.id}"
    if not is_replicas(headers):
        raise LostError(f"{at}: not a replica's answer: {status}")
    if status == TIMED_OUT:
        if early:
            raise LostError(f"{at}: dropped the call before its deadline")
        raise DeadlineError(f"{at}: dropped the call past its deadline")
    # Without a name for the error: a frame that names the error that it raises would be in a cycle with it.
    raise failure_of_handler(stage, data) or LostError(f"{at}: answered {status} in an unknown form")
