"""Calls of a foreign HTTP service: requests from templates, answers from JSON, statuses as errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn
from urllib.parse import quote

import msgspec

from kwiken.base.errors import DefinitionError, InputError
from kwiken.base.printable import printable
from kwiken.model.service.remote import CHUNKS, EVENTS, LINES, HttpCall, input_names, templates_of
from kwiken.model.service.service import Service
from kwiken.model.service.stage import Stage
from kwiken.model.service.template import missing_field
from kwiken.runtime.base.errors import HandlerError, LostError, RefusedError, UnfitError
from kwiken.runtime.wire.foreign.http_bodies import BrokenReplyError
from kwiken.runtime.wire.foreign.http_connection import (
    SUCCESS,
    HttpReply,
    NoConnectionError,
    UnreadReplyError,
)
from kwiken.runtime.wire.foreign.http_items import HttpItems, ItemReader
from kwiken.runtime.wire.foreign.http_pool import Pool
from kwiken.runtime.wire.foreign.http_streams import BodyStream
from kwiken.runtime.wire.foreign.inputs import plain_inputs, unfilled
from kwiken.runtime.wire.transport import wire
from kwiken.runtime.wire.transport.base import Call, Replica, Reply
from kwiken.runtime.wire.transport.call_bodies import check_sent_size
from kwiken.runtime.wire.transport.json_work import excess_work

MAX_TARGET: Final = 8000  # bytes of path and query: what servers take at least (RFC 9110, section 4.1)
MAX_MESSAGE: Final = 300  # characters of an error's answer that are quoted
REDIRECTS: Final = range(300, 400)
MAX_PAUSE_DIGITS: Final = 9  # of a Retry-After header
MIN_DATE, MAX_DATE = 24, 40  # characters: of the shortest form, and of the longest weekday with room to spare
NS_PER_S: Final = 1e9
# What a request asks for, by the form of its answer.
ACCEPT: Final = {None: wire.JSON, EVENTS: "text/event-stream", LINES: "application/x-ndjson", CHUNKS: "*/*"}
BUSY: Final = frozenset({429, 503})  # the server has no room: the call did not run, as far as it says
MISDIRECTED: Final = 421  # the server is another one, so the call did not run
# A proxy or server gave the call up, which may run on behind it.
GIVEN_UP: Final = frozenset({408, 502, 504})


class HttpCaller:
    """Calls one stage's foreign HTTP service.

    Args:
        stage: stage whose `remote` is an `HttpCall`.
        pool: connections to all foreign HTTP servers.
        time_ns: clock for dates of servers that do not state their own: nanoseconds since 1970.

    Raises:
        DefinitionError: the answer's type cannot be read from JSON.
    """

    def __init__(self, service: Service, stage: Stage, pool: Pool, time_ns: Callable[[], int]) -> None:
        remote = stage.remote_call
        assert isinstance(remote, HttpCall)
        self._stage = stage
        self._pool = pool
        self._time_ns = time_ns
        self._method = remote.method
        templates = templates_of(remote, input_names(stage.after, stage.fanout))
        assert templates.target is not None
        self._target, self._body = templates.target, templates.body
        self._bodiless = remote.method not in {"PATCH", "POST", "PUT"}
        told = {"accept": ACCEPT[remote.stream], "accept-encoding": "identity", "user-agent": "kwiken"}
        if self._body is not None:
            told["content-type"] = wire.JSON
        told |= {name.lower(): value for name, value in remote.headers.items()}
        self._headers = f"host: {remote.authority}\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in told.items()
        )
        self._attempts_header, self._time_left_header = remote.attempts_header, remote.time_left_header
        self._checks_health = remote.health is not None
        probe = f"GET {remote.health}" if remote.health is not None else "HEAD /"
        self._probe = f"{probe} HTTP/1.1\r\nhost: {remote.authority}\r\nuser-agent: kwiken\r\n\r\n".encode()
        try:
            self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
                service.signature(stage.name).output
            )
        except (TypeError, ValueError) as error:
            raise DefinitionError(
                f"its answer cannot be read from JSON: {error}", stage=stage.name
            ) from error
        self._items: ItemReader | None = None
        if remote.stream is not None:
            mark, item = remote.final_mark, service.signature(stage.name).output
            self._items = ItemReader(
                stage.name,
                remote.stream,
                None if mark is None else mark.encode(),
                self._decoder.decode,
                # A type without declared fields may have any, and is asked for one that nobody has.
                has_error=missing_field(item, ["error"]) is None and missing_field(item, [" "]) is not None,
            )

    @property
    def checks_health(self) -> bool:
        """Whether the service has a health check of its own."""
        return self._checks_health

    async def check(self, replicas: Sequence[Replica]) -> None:
        """Check the definition at the service: HTTP says nothing of types, so there is nothing to ask."""

    async def close(self) -> None:
        """Close nothing: the connections belong to the pool."""

    async def call(self, replica: Replica, call: Call, remaining_s: float) -> Reply:
        """Send one call; see `Transport`. Cancelling closes the connection.

        Args:
            remaining_s: time until the deadline, seconds; the caller cancels the call then.
        """
        request = self._request(call, remaining_s)
        place = wire.split_address(replica.address, where=f"replica {replica.id}", schemes=wire.SCHEMES)
        try:
            reply = await self._pool.exchange(place, request, call, streamed=self._items is not None)
            call.status = reply.status
        except NoConnectionError as error:
            raise RefusedError(f"{self._at(replica)}: no connection: {error}") from error
        except BrokenReplyError as error:
            raise LostError(f"{self._at(replica)}: {error}") from error
        except UnreadReplyError as error:
            call.status = error.status
            if error.too_long and error.status in SUCCESS:
                message = f"replica {replica.id}: {error}"
                raise HandlerError(self._stage.name, "ReplyTooLarge", message) from error
            raise LostError(f"{self._at(replica)}: answered {error.status}, and {error}") from error
        if reply.status not in SUCCESS:
            self._raise(replica, reply)
        if reply.stream is not None:
            return Reply(await self._begun(replica, reply, reply.stream, call))
        return Reply(self._read(replica, reply))

    async def _begun(self, replica: Replica, reply: HttpReply, stream: BodyStream, call: Call) -> HttpItems:
        """Stream whose first item has come.

        Raises:
            UnfitError: the answer has another form, or its first item another type.
            LostError, HandlerError: as of `ItemStream.pull`.
        """
        assert self._items is not None
        items = HttpItems(stream, self._items, call, self._at(replica))
        try:
            self._check_kind(replica, reply, self._items.stream)
        except UnfitError:
            items.cancel()
            raise
        return await items.begin()

    def _check_kind(self, replica: Replica, reply: HttpReply, stream: str) -> None:
        """Check what the head of a response says of a stream in its body."""
        self._check_coding(replica, reply)
        kind = reply.headers.get("content-type", "no content type")
        if stream == EVENTS and kind.partition(";")[0].strip().lower() != ACCEPT[EVENTS]:
            raise UnfitError(
                f"{self._at(replica)}: answered {printable(kind[:60])}, not {ACCEPT[EVENTS]}; does its "
                "body ask for a stream, as by `stream: true`?"
            )

    def _at(self, replica: Replica) -> str:
        return f"stage {self._stage.name!r}: replica {replica.id}"

    def _request(self, call: Call, remaining_s: float) -> bytes:
        """Whole request of a call.

        Args:
            remaining_s: time until the deadline, seconds.

        Raises:
            InputError, HandlerError: the templates cannot be filled from the inputs.
        """
        stage = self._stage
        inputs = plain_inputs(stage, call)
        try:
            target = self._target.fill(inputs, _quoted)
            _check_path(target)
            body = b"" if self._body is None else msgspec.json.encode(self._body.fill(inputs))
        except InputError as error:
            raise unfilled(stage, error) from error
        check_sent_size(stage.name, "path", len(target), MAX_TARGET)
        check_sent_size(stage.name, "body", len(body))
        call.send(len(body))
        trace = f"{wire.TRACEPARENT}: {call.traceparent}\r\n" if call.traceparent else ""
        length = "" if self._bodiless else f"content-length: {len(body)}\r\n"
        own = self._own_headers(call, remaining_s)
        head = f"{self._method} {target} HTTP/1.1\r\n{self._headers}{length}{trace}{own}\r\n"
        return head.encode("ascii") + body

    def _own_headers(self, call: Call, remaining_s: float) -> str:
        """Headers that say which attempt of its call this is, and how long the answer is of use."""
        told = ""
        if self._attempts_header is not None and call.attempt:
            told = f"{self._attempts_header}: {call.attempt}\r\n"
        if self._time_left_header is not None:
            told += f"{self._time_left_header}: {max(0, int(1000 * remaining_s))}\r\n"
        return told

    def _read(self, replica: Replica, reply: HttpReply) -> Any:
        """Decode an answer; an empty one is null.

        Raises:
            UnfitError: the answer does not have the stage's type.
        """
        self._check_coding(replica, reply)
        excess = excess_work(reply.body)
        if excess is not None:
            raise HandlerError(self._stage.name, "ReplyTooLarge", f"replica {replica.id}: {excess}")
        try:
            return self._decoder.decode(reply.body or b"null")
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            kind = reply.headers.get("content-type", "no content type")
            raise UnfitError(
                f"{self._at(replica)}: its answer ({printable(kind[:60])}) does not fit: {error}"
            ) from error

    def _check_coding(self, replica: Replica, reply: HttpReply) -> None:
        coding = reply.headers.get("content-encoding", "identity")
        if coding != "identity":
            raise UnfitError(f"{self._at(replica)}: its answer is compressed ({printable(coding[:40])})")

    def _raise(self, replica: Replica, reply: HttpReply) -> NoReturn:
        """Raise the error that a status stands for. There are four cases.

        1. The server has no room: another replica may take the call. It may have run all the same, so only
           an idempotent stage's call goes elsewhere free of charge.
        2. The server is not the one that was meant: the call did not run.
        3. A proxy or the server gave the call up: whether it ran is unknown.
        4. Any other status is the service's own answer, which another replica would give as well.
        """
        status, at = reply.status, self._at(replica)
        pause_s = pause_of(reply.headers, self._time_ns() / NS_PER_S) if status in BUSY else 0.0
        if status in BUSY and self._stage.idempotent:
            raise RefusedError(f"{at}: answered {status}", full=True, pause_s=pause_s)
        if status == MISDIRECTED:
            raise RefusedError(f"{at}: answered {status}, so it is another server")
        if status in GIVEN_UP or status in BUSY:
            raise LostError(f"{at}: answered {status}", pause_s=pause_s)
        raise HandlerError(self._stage.name, f"HTTP {status}", _error_text(status, reply.headers, reply.body))

    async def healthy(self, replica: Replica) -> bool:
        """Whether a replica answers: with 2xx where it has a health check, with any status where not."""
        with contextlib.suppress(NoConnectionError, BrokenReplyError, InputError):
            place = wire.split_address(replica.address, where=f"replica {replica.id}", schemes=wire.SCHEMES)
            try:
                status = (await self._pool.exchange(place, self._probe)).status
            except UnreadReplyError as error:
                status = error.status
            return status in SUCCESS or not self._checks_health
        return False


def pause_of(headers: Mapping[str, str], now_s: float) -> float:
    """Seconds that a Retry-After header states (RFC 9110, section 10.2.3), as a number or by a date.

    The answer's own `Date` says when it was sent by the server's clock, so that the clocks need not agree.

    Args:
        headers: headers of the answer, by their names in lower case.
        now_s: present time by our clock, seconds since 1970; counts where the answer states no date.

    Returns:
        Seconds, 0 or more; 0 where the header is missing, or states neither.
    """
    stated = headers.get("retry-after", "")
    if stated.isascii() and stated.isdigit():
        return float(stated) if len(stated) <= MAX_PAUSE_DIGITS else 0.0
    until_s, sent_s = _date_s(stated), _date_s(headers.get("date", ""))
    return 0.0 if until_s is None else max(0.0, until_s - (now_s if sent_s is None else sent_s))


def _date_s(stated: str) -> float | None:
    """Moment that a header states (RFC 9110, section 5.6.7), seconds since 1970; None if it states none."""
    if not MIN_DATE <= len(stated) <= MAX_DATE:
        return None
    from email.utils import mktime_tz, parsedate_tz  # takes memory that few services need

    parts = parsedate_tz(stated)
    try:
        return None if parts is None else float(mktime_tz(parts))
    except (ValueError, OverflowError):
        return None


def _quoted(text: str) -> str:
    """Value percent-encoded for a path or a query."""
    return quote(text, safe="")


def _check_path(target: str) -> None:
    """Refuse steps through the path, as which servers take "." and "..", encoded or not.

    Raises:
        InputError: a part of the path is such a step.
    """
    for step in {".", ".."}.intersection(target.partition("?")[0].split("/")):
        raise InputError(f"a part of the path is {step!r}, which leads elsewhere", where="remote")


def _error_text(status: int, headers: Mapping[str, str], body: bytes) -> str:
    """Beginning of an error's answer, for a message."""
    if status in REDIRECTS:
        return (
            f"redirects are not followed (to {printable(headers.get('location', 'nowhere')[:MAX_MESSAGE])})"
        )
    text = " ".join(body[: 4 * MAX_MESSAGE].decode(errors="replace").split())
    return printable(text[:MAX_MESSAGE]) or "it gave no reason"
