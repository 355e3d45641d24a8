"""HTTP/1.1 client over gevent: a pool of keep-alive connections, one request at a time on each.

The load generator often shares its cores with the system under test, so CPU time that the client spends shows
up as latency of that system. Locust's own session takes about three times the CPU time per request;
`python -m benchmarks.load.generator_accuracy` measures both.
"""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Callable
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Final

import gevent
import gevent.socket
import gevent.ssl
import msgspec
from gevent import monkey
from geventhttpclient._parser import HTTPResponseParser

from kwiken.base.errors import InputError
from kwiken.base.printable import printable
from kwiken.loadtest.inputs.headers import Headers
from kwiken.loadtest.inputs.queries import Queries
from kwiken.loadtest.inputs.settings import LoadTarget
from kwiken.loadtest.results.outcome import SentRequest

if TYPE_CHECKING:
    from kwiken.runtime.wire.tls.clients import ClientTls

_BLOCK = 64 * 1024
MAX_ANSWER = 64 * 1024 * 1024
_UTILITY = "kw-utility"
_TYPE = "content-type"
_STREAMS = ("text/event-stream", "application/x-ndjson")
# Locust's command replaces select.poll by a version that waits in the event loop; polling without waiting
# needs no loop.
_poll: Callable[[], Any] = monkey.get_original("select", "poll")
MAX_FAILURE_BYTES: Final = 4096
_MAX_CHARACTERS: Final = 300
_FIELDS: Final = ("error", "message", "detail", "reason", "title")


def failure_text(status: int, body: bytes) -> str:
    """One printable line: the status, and what the body says of the failure.

    Args:
        status: HTTP status of the answer.
        body: body of the answer, or its start.
    """
    said = _error_text(body)
    line = printable(" ".join(said.split()), most=_MAX_CHARACTERS)
    return f"HTTP {status}: {line}" if line else f"HTTP {status}"


def _error_text(body: bytes) -> str:
    """Text of the field that names the error in a JSON object, else the whole body."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return body.decode("utf-8", "replace")
    while isinstance(document, dict):
        document = next((document[name] for name in _FIELDS if document.get(name)), None)
    return document if isinstance(document, str) else body.decode("utf-8", "replace")


class _Answer(HTTPResponseParser):
    """Response parser that records the body's size, the end of the response and its utility header.

    Args:
        bodiless: True for the response to HEAD, which ends with its header.
        keep: True to keep the start of the body of a response that is no success.
    """

    def __init__(self, *, bodiless: bool, keep: bool) -> None:
        super().__init__()
        self._bodiless = bodiless
        self._keep = keep
        self.kept = b""
        self.done = False
        self.size = 0
        self.streams = False
        self.first_at = self._piece_at = math.nan
        self.longest_gap_s = math.nan
        self._last = b""
        self._name = ""
        self._value = ""
        self._in_value = False

    @property
    def utility(self) -> float:
        """Utility that the response states, from 0 to 1; 1 for a response without the header."""
        try:
            utility = float(self._value or 1.0)
        except ValueError:
            return 1.0  # a header of this name that means something else
        return utility if 0 <= utility <= 1 else 1.0

    @property
    def broken_off(self) -> str | None:
        """Reason of the failure of a stream that ends by an error; None for any other answer."""
        lines = self._last.rstrip().split(b"\n")[-2:]
        failed = lines[-1].startswith(b'{"error":') or lines[0] == b"event: error"
        return "stream broke off" if failed else None

    def at_end(self) -> None:
        """Handle the end of the connection; a response that is not complete is an error."""
        if not self.done:
            raise ConnectionAbortedError

    def _on_message_complete(self) -> None:
        self.done = self.get_code() >= 200  # noqa: PLR2004 - a 1xx response comes before the final one

    def _on_body(self, data: bytes) -> None:
        self.size += len(data)
        if self.streams:
            now = time.monotonic()
            if math.isnan(self.first_at):
                self.first_at = now
            elif not now - self._piece_at <= self.longest_gap_s:  # the first gap is longer than NaN
                self.longest_gap_s = now - self._piece_at
            self._piece_at = now
            self._last = (self._last + data)[-MAX_FAILURE_BYTES:]
        if self.size > MAX_ANSWER:
            raise ValueError("answer too large")
        if self._keep and len(self.kept) < MAX_FAILURE_BYTES and not 200 <= self.get_code() < 300:  # noqa: PLR2004 - "successful"
            self.kept += data[:MAX_FAILURE_BYTES]

    def _on_message_begin(self) -> None: ...

    def _on_headers_complete(self) -> None:
        if self._bodiless:
            self._on_message_complete()

    def _on_status(self, text: str) -> None: ...

    def _on_header_field(self, text: str) -> None:
        self._name = text if self._in_value else self._name + text  # the parser may pass a name in pieces
        self._in_value = False

    def _on_header_value(self, text: str) -> None:
        self._in_value = True
        if len(self._name) == len(_TYPE) and self._name.lower() == _TYPE:
            self.streams = self.streams or text.startswith(_STREAMS)
        if len(self._name) == len(_UTILITY) and self._name.lower() == _UTILITY:
            self._value += text


class _Connection:
    """Connected socket, with a check whether the server closed it while it was idle."""

    __slots__ = ("poll", "sock")

    def __init__(self, sock: Any) -> None:
        self.sock = sock
        self.poll = _poll()
        self.poll.register(sock.fileno(), select.POLLIN)

    def usable(self) -> bool:
        """True if nothing can be read: the server neither closed the idle connection nor sent stray bytes."""
        return not self.poll.poll(0)


class Client:
    """HTTP client for one target and a fixed set of requests.

    Args:
        queries: bodies and paths of requests; `send` takes the index of one.
        method: method of all requests, in capitals.
        timeout_s: time limit of one whole request, connecting included, seconds.
        headers: fields of every request, in place of the client's own of the same name.

    Raises:
        InputError: a file of the certificates that the environment names cannot be used.
    """

    def __init__(
        self, target: LoadTarget, queries: Queries, *, method: str, timeout_s: float, headers: Headers = ()
    ) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []
        self._address: tuple[Any, ...] | None = None
        self._tls = _client_tls() if target.tls else None
        self._bodiless = method == "HEAD"
        self.first_failure: str | None = None
        own = {"host": target.authority, "user-agent": "kwiken-load", "accept": "application/json"}
        named = {name.lower() for name, _ in headers}
        fields = [(name.title(), value) for name, value in own.items() if name not in named]
        lines = "".join(f"{name}: {value}\r\n" for name, value in (*fields, *headers))
        kind = "" if "content-type" in named else "\r\nContent-Type: application/json"
        rest = f" HTTP/1.1\r\n{lines}traceparent: "
        paths = queries.paths or (target.path,)
        self._heads = tuple(f"{method} {path}{rest}".encode("ascii") for path in paths)
        tail = f"{kind}\r\nContent-Length: %d\r\n\r\n%b".encode("ascii")
        self._tails = tuple(tail % (len(body), body) if body else b"\r\n\r\n" for body in queries.bodies)

    def send(self, query: int, traceparent: str) -> SentRequest:
        """Send one request and read the whole response; a stream that ends by an error has failed."""
        # One timer for the whole request: a socket timeout would start again with each packet.
        timer = gevent.Timeout.start_new(self._timeout_s)
        try:
            head = self._heads[query if len(self._heads) > 1 else 0]
            began = time.monotonic()
            answer = self._exchange(head + traceparent.encode("ascii") + self._tails[query])
        except gevent.Timeout as hit:
            if hit is not timer:
                raise
            return SentRequest(0, "timeout", 0)
        except (OSError, HTTPException, ValueError) as error:
            return SentRequest(0, _reason(error), 0)
        finally:
            timer.close()
        status = answer.get_code()
        reason = answer.broken_off if 200 <= status < 300 else f"HTTP {status}"  # noqa: PLR2004 - "successful"
        first_s, gap_s = answer.first_at - began, answer.longest_gap_s
        return SentRequest(status, reason, answer.size, answer.utility, first_s, gap_s)

    def _exchange(self, request: bytes) -> _Answer:
        connection = self._take()
        try:
            sock = connection.sock
            sock.sendall(request)
            answer = _Answer(bodiless=self._bodiless, keep=self.first_failure is None)
            while not answer.done:
                data = sock.recv(_BLOCK)
                answer.feed(data)
                if not data:
                    answer.at_end()
            # The parser waits for the body that the response to HEAD does not have: it cannot read on.
            keep = answer.should_keep_alive() and not self._bodiless
        except BaseException:  # the response to a cancelled request may still arrive on this connection
            connection.sock.close()
            raise
        if keep:
            self._idle.append(connection)
        else:
            connection.sock.close()
        if self.first_failure is None and not 200 <= answer.get_code() < 300:  # noqa: PLR2004 - "successful"
            self.first_failure = failure_text(answer.get_code(), answer.kept)
        return answer

    def _take(self) -> _Connection:
        """Most recently used idle connection that is still open, else a new one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable():
                return connection
            connection.sock.close()
        return self._connect()

    def _connect(self) -> _Connection:
        if self._address is None:
            self._address = self._resolve()
        family, kind, protocol, _, address = self._address
        sock = gevent.socket.socket(family, kind, protocol)
        try:
            sock.connect(address)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.context().wrap_socket(sock, server_hostname=self._target.host)
        except BaseException:
            sock.close()
            raise
        return _Connection(sock)

    def _resolve(self) -> tuple[Any, ...]:
        """First address of the host that accepts a connection; resolved once, so no request waits for DNS."""
        failure: OSError = OSError("no address")
        found: tuple[Any, ...]
        for found in gevent.socket.getaddrinfo(self._target.host, self._target.port, 0, socket.SOCK_STREAM):
            probe = gevent.socket.socket(*found[:3])
            try:
                probe.connect(found[4])
            except OSError as error:
                failure = error
            else:
                return found
            finally:
                probe.close()
        raise failure

    def check(self) -> None:
        """Open the first connection.

        Raises:
            InputError: the target cannot be reached.
        """
        where = f"{self._target.host}:{self._target.port}"
        try:
            with gevent.Timeout(min(self._timeout_s, 5.0)):
                self._idle.append(self._connect())
        except gevent.Timeout as error:
            raise InputError("cannot be reached: timeout", where=where) from error
        except (OSError, UnicodeError) as error:
            raise InputError(f"cannot be reached: {_reason(error)}", where=where) from error

    def close(self) -> None:
        """Close all idle connections."""
        while self._idle:
            self._idle.pop().sock.close()


def _client_tls() -> ClientTls:
    """Certificates that the environment names, for gevent's sockets, so that no greenlet blocks."""
    from kwiken.runtime.wire.tls.clients import ClientTls

    return ClientTls(kind=gevent.ssl.SSLContext)


_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "connection refused"),
    (ConnectionResetError, "connection reset"),
    (BrokenPipeError, "connection reset"),
    (ConnectionAbortedError, "connection closed before the answer's end"),
    (HTTPException, "answer is not HTTP"),
)


def _reason(error: BaseException) -> str:
    """Short reason of a failure, from a small set, because failures are counted by reason."""
    for kind, text in _REASONS:
        if isinstance(error, kind):
            return text
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
