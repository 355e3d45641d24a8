"""Calls to replicas over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn, Self

import msgspec

from kwiken.errors import InputError
from kwiken.runtime.clock import Clock, SystemClock
from kwiken.runtime.errors import DeadlineError, HandlerError, LostError, RefusedError, UnfitError
from kwiken.runtime.tasks import cancel_and_wait
from kwiken.runtime.transport import wire
from kwiken.runtime.transport.base import Call, Replica, Reply
from kwiken.runtime.transport.http_pool import BrokenReplyError, NoConnectionError, Pool, UnreadReplyError
from kwiken.service import Service

OK: Final = 200
NOT_RUN: Final = frozenset({404, 405, 413, 421, 501})
TIMED_OUT: Final = 504
EARLY_S: Final = 0.05  # a replica that calls a deadline passed which has so much left is not believed
MAX_KIND: Final = 100
MAX_MESSAGE: Final = 500  # as long as a replica makes them
CHECK_EVERY: Final = 32  # of a replica's answers that are passed on one in so many is read
MAX_ADDRESSES: Final = 65_536
LIFE_S: Final = 5.0  # for so long a replica may be silent when it is asked for a sign of life


@contextlib.contextmanager
def map_errors(stage: str, replica: Replica) -> Iterator[None]:
    """Raise the runtime's errors for those of the connections; the one place that knows both."""
    try:
        yield
    except NoConnectionError as error:
        raise RefusedError(f"stage {stage!r}: replica {replica.id}: no connection: {error}") from error
    except BrokenReplyError as error:
        raise LostError(f"stage {stage!r}: replica {replica.id}: {error}") from error
    except UnreadReplyError as error:
        _refuse(error.status, error.headers, stage, replica, "")
        if error.too_long and error.status == OK and _is_replicas(error.headers):
            message = f"replica {replica.id}: {error}"
            raise HandlerError(stage, "ReplyTooLarge", message) from error
        raise LostError(
            f"stage {stage!r}: replica {replica.id}: not a replica's answer: {error.status}, and {error}"
        ) from error


class Place(NamedTuple):
    """Where a replica is: host and port, what is always the same of a call's head, and a question."""

    host_and_port: tuple[str, int]
    head: str
    question: bytes


class HttpTransport:
    """Sends calls to replica servers over kept-alive connections; use as an asynchronous context manager.

    Args:
        service: whose stages are called; its handlers' annotations give the types of answers.
        clock: the executor's; deadlines are moments of it.
        max_body: bytes; a longer answer is an error.
        raw: leave answers as the MessagePack that came (`msgspec.Raw`), to be passed on. They are read only
            to see whether they fit: a replica's first and some of the rest. The last stage's answer is
            decoded all the same, and those of stages whose `utility` or `worth` looks at them.
    """

    def __init__(
        self,
        service: Service,
        *,
        clock: Clock | None = None,
        max_body: int = wire.MAX_BODY,
        raw: bool = False,
    ) -> None:
        self._clock = clock if clock is not None else SystemClock()
        self._max_body = max_body
        self._codecs = {name: wire.Codec(service, name) for name in service.stages}
        self._passed_on = {
            name
            for name, stage in service.stages.items()
            if raw and name != service.sink and stage.utility is None and stage.worth is None
        }
        self._unread: dict[str, int] = {}  # by address, answers that are passed on before one is read
        self._encoder = msgspec.msgpack.Encoder()
        self._places: dict[str, Place] = {}
        self._last_args: tuple[Any, ...] | None = None
        self._last_body = b""
        self._pool: Pool | None = None
        self._questions: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Open the pool of connections."""
        self._pool = Pool(max_body=self._max_body)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Drop every question and close every connection."""
        await cancel_and_wait(tuple(self._questions))
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Send one call; see `Transport`. Cancelling it cuts the connection, so the replica hears of it."""
        assert self._pool is not None, "use the transport as an asynchronous context manager"
        remaining_ms = (call.deadline - self._clock.monotonic()) * 1e3
        if remaining_ms <= 0:
            raise DeadlineError(f"stage {call.stage!r}: the deadline passed before the call was sent")
        place = self._places.get(replica.address) or self._place(replica)
        body = self._encode(call.args)
        if len(body) > wire.MAX_BODY:
            raise HandlerError(
                call.stage,
                "CallTooLarge",
                f"its input is {len(body)} bytes; at most {wire.MAX_BODY} are sent",
            )
        request = _head(place, call, min(remaining_ms, wire.MAX_DEADLINE_MS), len(body)) + body
        with map_errors(call.stage, replica):
            status, headers, data = await self._pool.exchange(place.host_and_port, request)
        if status != OK:
            early = self._clock.monotonic() < call.deadline - EARLY_S
            _raise(status, headers, data, call.stage, replica, early=early)
        return self._reply(call.stage, replica, headers, data)

    def ask(self, replica: Replica, heard: Callable[[bool], None]) -> None:
        """Ask `/livez`; see `Transport`."""
        if self._pool is None:
            return
        task = asyncio.get_running_loop().create_task(self._ask(self._pool, replica, heard))
        self._questions.add(task)
        task.add_done_callback(self._questions.discard)

    async def _ask(self, pool: Pool, replica: Replica, heard: Callable[[bool], None]) -> None:
        alive = False  # also where the replica ends, or says nothing for too long
        with contextlib.suppress(
            TimeoutError, RefusedError, NoConnectionError, BrokenReplyError, UnreadReplyError
        ):
            place = self._places.get(replica.address) or self._place(replica)
            async with asyncio.timeout(LIFE_S):
                reply = await pool.exchange(place.host_and_port, place.question)
                alive = reply.status == OK
        heard(alive)

    def _place(self, replica: Replica) -> Place:
        """Read an address, once."""
        try:
            place = wire.split_address(replica.address, where=f"replica {replica.id}")
        except InputError as error:
            raise RefusedError(str(error)) from error
        if len(self._places) >= MAX_ADDRESSES:
            self._places.clear()
        authority = replica.address.removeprefix("http://")
        found = self._places[replica.address] = Place(
            place,
            f"POST {wire.CALL_PATH} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: {wire.MSGPACK}\r\n",
            f"GET /livez HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("ascii"),
        )
        return found

    def _encode(self, args: tuple[Any, ...]) -> bytes:
        """A call's body; the shards of a fan-out are called one after another with the same arguments."""
        if args is not self._last_args:
            self._last_body = self._encoder.encode(args)
            self._last_args = args
        return self._last_body

    def _reply(self, stage: str, replica: Replica, headers: Mapping[str, str], data: bytes) -> Reply:
        at = f"stage {stage!r}: replica {replica.id}"
        if not _is_replicas(headers):
            raise LostError(f"{at}: not a replica's answer: it lacks the headers of one")
        try:
            busy_ms = wire.read_number(headers, wire.BUSY, low=0.0, high=wire.MAX_BUSY_MS)
            inflight = wire.read_whole(headers, wire.INFLIGHT, low=0, high=wire.MAX_INFLIGHT)
            latency_ms = wire.read_number(headers, wire.LATENCY, low=0.0, high=wire.MAX_BUSY_MS)
        except InputError as error:
            raise LostError(f"{at}: not a replica's answer: {error}") from error
        try:
            value = self._read(stage, replica.address, data)
        except InputError as error:
            raise UnfitError(f"{at}: {str(error).removeprefix(f'{error.where}: ')}") from error
        return Reply(value, busy_ms=busy_ms, inflight=inflight, latency_ms=latency_ms)

    def _read(self, stage: str, address: str, data: bytes) -> Any:
        """An answer's value; of those that are passed on, see whether they fit where that is due.

        Raises:
            InputError: it does not fit.
        """
        if stage not in self._passed_on:
            return self._codecs[stage].output(data)
        left = self._unread.get(address, 0)
        if left:
            self._unread[address] = left - 1
        else:
            self._codecs[stage].output(data)  # until one fits, every one is read
            if len(self._unread) >= MAX_ADDRESSES:
                self._unread.clear()
            self._unread[address] = CHECK_EVERY - 1
        return msgspec.Raw(data)


def _head(place: Place, call: Call, remaining_ms: float, length: int) -> bytes:
    """A request's head. Names of stages and addresses were checked, so none of it can break a line."""
    trace = (
        f"{wire.TRACEPARENT}: {wire.format_traceparent(call.trace_id, call.span_id)}\r\n"
        if call.trace_id
        else ""
    )
    more = f"{wire.THREADS}: {call.threads}\r\n" if call.threads > 1 else ""
    return (
        f"{place.head}Content-Length: {length}\r\n"
        f"{wire.STAGE}: {call.stage}\r\n{wire.SHARD}: {call.shard}\r\n{wire.ATTEMPT}: {call.attempt}\r\n"
        f"{wire.DEADLINE}: {remaining_ms:.1f}\r\n{wire.PRIORITY}: {call.priority}\r\n{more}{trace}\r\n"
    ).encode("ascii")


def _is_replicas(headers: Mapping[str, str]) -> bool:
    """Whether an answer has the headers that every call's answer of a replica has."""
    return wire.BUSY in headers and wire.INFLIGHT in headers and wire.LATENCY in headers


def _refuse(status: int, headers: Mapping[str, str], stage: str, replica: Replica, text: str) -> None:
    """Raise a refusal, if an answer is one."""
    at = f"stage {stage!r}: replica {replica.id}"
    if wire.REFUSED in headers:
        full = headers[wire.REFUSED] == wire.FULL
        raise RefusedError(f"{at}: refused with {status}: {text}", full=full)
    if status in NOT_RUN and not _is_replicas(headers):
        raise RefusedError(f"{at}: answered {status}, so another kind of server is there")


def _raise(
    status: int, headers: Mapping[str, str], data: bytes, stage: str, replica: Replica, *, early: bool
) -> NoReturn:
    """The error that a reply other than 200 stands for."""
    _refuse(status, headers, stage, replica, data[:200].decode(errors="replace"))
    at = f"stage {stage!r}: replica {replica.id}"
    if not _is_replicas(headers):
        raise LostError(f"{at}: not a replica's answer: {status}")
    if status == TIMED_OUT:
        if early:
            raise LostError(f"{at}: dropped the call before its deadline")
        raise DeadlineError(f"{at}: dropped the call past its deadline")
    try:
        error = msgspec.msgpack.decode(data, type=dict[str, str])
        kind, message = error["kind"], error["error"]
    except (ValueError, KeyError, RecursionError):
        raise LostError(f"{at}: answered {status} in no form that is known") from None
    raise HandlerError(stage, kind[:MAX_KIND], message[:MAX_MESSAGE])
