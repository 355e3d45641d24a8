"""Calls to replicas over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Final, NoReturn, Self

import aiohttp
import msgspec
from multidict import CIMultiDictProxy
from yarl import URL

from kwiken import InputError, Service
from runtime import _wire as wire
from runtime._clock import Clock, SystemClock
from runtime._errors import DeadlineError, HandlerError, LostError, RefusedError
from runtime._transport import Call, Replica, Reply

# Shorter than a replica keeps an idle connection, so that no call is sent into one that is being closed.
IDLE_S: Final = 15.0
CONNECT_S: Final = 1.0
OK: Final = 200
NOT_A_REPLICA: Final = frozenset({404, 405, 421, 501})
TIMED_OUT: Final = 504
MAX_ADDRESSES: Final = 65_536


@contextlib.contextmanager
def map_errors(stage: str, replica: Replica) -> Iterator[None]:
    """Raise the runtime's errors for those of the HTTP library; the one place that knows both."""
    at = f"stage {stage!r}: replica {replica.id}"
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL) as error:
        raise RefusedError(f"{at}: no connection: {error}") from error
    except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError, TimeoutError) as error:
        raise LostError(f"{at}: {type(error).__name__}: {error}") from error


class HttpTransport:
    """Sends calls to replica servers over kept-alive connections; use as an asynchronous context manager.

    Args:
        service: whose stages are called; its handlers' annotations give the types of answers.
        clock: the executor's; deadlines are moments of it.
        max_body: bytes; a longer answer is an error.
        raw: leave answers as the MessagePack that came (`msgspec.Raw`), to be passed on unread. Stages whose
            `utility` looks at answers are decoded all the same.
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
            if not raw or stage.utility is not None
        }
        self._encoder = msgspec.msgpack.Encoder()
        self._urls: dict[str, URL] = {}
        self._last_args: tuple[Any, ...] | None = None
        self._last_body = b""
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the pool of connections."""
        self._session = aiohttp.ClientSession(
            # Callers are bounded by the executor; a bound here would be a second, invisible queue.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            auto_decompress=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, replica: Replica, call: Call) -> Reply:
        """Send one call; see `Transport`. Cancelling it closes the connection, so the replica hears of it."""
        assert self._session is not None, "use the transport as an asynchronous context manager"
        remaining_ms = (call.deadline - self._clock.monotonic()) * 1e3
        if remaining_ms <= 0:
            raise DeadlineError(f"stage {call.stage!r}: the deadline passed before the call was sent")
        headers = {
            "Content-Type": wire.MSGPACK,
            wire.STAGE: call.stage,
            wire.SHARD: str(call.shard),
            wire.ATTEMPT: str(call.attempt),
            wire.DEADLINE: f"{min(remaining_ms, wire.MAX_DEADLINE_MS):.1f}",
            wire.PRIORITY: str(call.priority),
        }
        if call.trace_id:
            headers[wire.TRACEPARENT] = wire.format_traceparent(call.trace_id, call.span_id)
        body = self._encode(call.args)
        with map_errors(call.stage, replica):
            async with self._session.post(
                self._url(replica.address), data=body, headers=headers, allow_redirects=False
            ) as response:
                data = await self._read(response, call.stage)
        if response.status != OK:
            _raise(response.status, response.headers, data, call.stage, replica)
        return self._reply(call.stage, replica, response.headers, data)

    def _url(self, address: str) -> URL:
        url = self._urls.get(address)
        if url is None:
            if len(self._urls) >= MAX_ADDRESSES:
                self._urls.clear()
            url = self._urls[address] = URL(address + wire.CALL_PATH, encoded=True)
        return url

    def _encode(self, args: tuple[Any, ...]) -> bytes:
        """A call's body; the shards of a fan-out are called one after another with the same arguments."""
        if args is not self._last_args:
            self._last_body = self._encoder.encode(args)
            self._last_args = args
        return self._last_body

    async def _read(self, response: aiohttp.ClientResponse, stage: str) -> bytes:
        length = response.content_length
        if length is None or length > self._max_body:
            response.close()
            what = "of unknown length" if length is None else f"{length} bytes long"
            raise HandlerError(
                stage, "ReplyTooLarge", f"the answer is {what}; at most {self._max_body} are taken"
            )
        return await response.read()

    def _reply(self, stage: str, replica: Replica, headers: CIMultiDictProxy[str], data: bytes) -> Reply:
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


def _raise(
    status: int, headers: CIMultiDictProxy[str], data: bytes, stage: str, replica: Replica
) -> NoReturn:
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
