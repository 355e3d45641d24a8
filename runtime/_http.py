"""Calls to replicas over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, NamedTuple, NoReturn, Self

import msgspec

from kwiken import InputError, Service
from runtime import _wire as wire
from runtime._clock import Clock, SystemClock
from runtime._connection import BrokenReplyError, NoConnectionError, Pool, ReplyTooLargeError
from runtime._errors import DeadlineError, HandlerError, LostError, RefusedError
from runtime._tasks import cancel_and_wait
from runtime._transport import Call, Replica, Reply

OK: Final = 200
NOT_A_REPLICA: Final = frozenset({404, 405, 421, 501})
TIMED_OUT: Final = 504
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
    except ReplyTooLargeError as error:
        raise HandlerError(stage, "ReplyTooLarge", str(error)) from error


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
        raw: leave answers as the MessagePack that came (`msgspec.Raw`), to be passed on unread. Stages whose
            `utility` or `worth` looks at answers are decoded all the same.
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
        self._codecs = {
            name: wire.Codec(service, name)
            for name, stage in service.stages.items()
            if not raw or stage.utility is not None or stage.worth is not None
        }
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
        request = _head(place, call, min(remaining_ms, wire.MAX_DEADLINE_MS), len(body)) + body
        with map_errors(call.stage, replica):
            status, headers, data = await self._pool.exchange(place.host_and_port, request)
        if status != OK:
            _raise(status, headers, data, call.stage, replica)
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
            TimeoutError, RefusedError, NoConnectionError, BrokenReplyError, ReplyTooLargeError
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
        codec = self._codecs.get(stage)
        try:
            value = msgspec.Raw(data) if codec is None else codec.output(data)
            return Reply(
                value,
                busy_ms=float(headers[wire.BUSY]),
                inflight=int(headers[wire.INFLIGHT]),
                latency_ms=float(headers[wire.LATENCY]),
            )
        except (KeyError, ValueError) as error:
            raise LostError(
                f"stage {stage!r}: replica {replica.id}: not a replica's answer: {error}"
            ) from error
        except InputError as error:
            raise HandlerError(stage, "InputError", str(error)) from error


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


def _raise(status: int, headers: Mapping[str, str], data: bytes, stage: str, replica: Replica) -> NoReturn:
    """The error that a reply other than 200 stands for."""
    at = f"stage {stage!r}: replica {replica.id}"
    if wire.REFUSED in headers or status in NOT_A_REPLICA:
        raise RefusedError(f"{at}: refused with {status}: {data[:200].decode(errors='replace')}")
    if status == TIMED_OUT:
        raise DeadlineError(f"{at}: dropped the call past its deadline")
    try:
        error = msgspec.msgpack.decode(data, type=dict[str, str])
        kind, message = error["kind"], error["error"]
    except (msgspec.MsgspecError, KeyError):
        raise LostError(f"{at}: answered {status} in no form that is known") from None
    raise HandlerError(stage, kind, message)
