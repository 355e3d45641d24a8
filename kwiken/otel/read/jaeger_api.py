"""Client of the HTTP API of Jaeger's query service."""

from __future__ import annotations

import re
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from kwiken.errors import InputError

MAX_TRACES: Final = 50_000
MAX_ANSWER: Final = 4 << 30
_TIMEOUT_S: Final = 60.0
_MAX_DOWNLOAD_S: Final = 900.0
_CHUNK: Final = 1 << 20
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(\d{1,9})([smhd])")
_FORM: Final = "jaeger://HOST:PORT/SERVICE?lookback=1h"
_KNOWN: Final = ("lookback", "limit", "operation")


@dataclass(frozen=True, slots=True)
class JaegerQuery:
    """Query for the traces of one service.

    Attributes:
        where: address as given, for errors.
        host: host and port of the query service.
        service: name of the service.
        operation: operation that a trace must contain; None for all traces.
        lookback_s: age of the oldest traces, seconds.
        limit: maximal number of traces.
    """

    where: str
    host: str
    service: str
    operation: str | None = None
    lookback_s: int = 3600
    limit: int = 2000

    @classmethod
    def parse(cls, address: str) -> JaegerQuery:
        """Read `jaeger://HOST:PORT/SERVICE?lookback=1h&limit=2000&operation=OP`.

        Raises:
            InputError: the address has another form; says what is wrong.
        """

        def refuse(message: str) -> InputError:
            return InputError(f"{message}; the form is {_FORM}", where=address)

        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError as error:
            raise refuse(f"is no address: {error}") from error
        if parts.scheme != "jaeger" or not parts.hostname or port is None:
            raise refuse("names no host and port")
        service = unquote(parts.path.strip("/"))
        if not service or "/" in parts.path.strip("/"):
            raise refuse("names no service")
        if parts.username is not None or parts.fragment:
            raise refuse("has a user or a fragment")
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(asked.keys() - set(_KNOWN))
        if unknown:
            raise refuse(f"has an unknown parameter {unknown[0]!r}, known are {', '.join(_KNOWN)}")
        lookback = _DURATION.fullmatch(asked.get("lookback", "1h"))
        if lookback is None:
            raise refuse("has a lookback that is no duration such as 30m, 1h or 2d")
        limit = asked.get("limit", "2000")
        if not limit.isdecimal() or not 1 <= int(limit[:9]) <= MAX_TRACES:
            raise refuse(f"has a limit that is no number from 1 to {MAX_TRACES}")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(
            address,
            f"{host}:{port}",
            service,
            asked.get("operation"),
            int(lookback.group(1)) * _UNITS[lookback.group(2)],
            int(limit),
        )

    def url(self, now_s: float) -> str:
        """URL of the request; times in microseconds, as Jaeger takes them."""
        end = round(now_s * 1e6)
        asked = {
            "service": self.service,
            "start": end - self.lookback_s * 1_000_000,
            "end": end,
            "limit": self.limit,
        }
        if self.operation is not None:
            asked["operation"] = self.operation
        return f"http://{self.host}/api/traces?{urlencode(asked, quote_via=quote)}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Redirect handler that follows no redirect, so that only the given host is contacted."""

    def redirect_request(
        self,
        req: urllib.request.Request,  # noqa: ARG002 - the library's signature
        fp: IO[bytes],  # noqa: ARG002
        code: int,  # noqa: ARG002
        msg: str,  # noqa: ARG002
        headers: HTTPMessage,  # noqa: ARG002
        newurl: str,  # noqa: ARG002
    ) -> None:
        """Refuse the redirect."""
        return


@contextmanager
def fetched(query: JaegerQuery) -> Iterator[IO[bytes]]:
    """Send the query, and yield the response body as a file.

    Raises:
        InputError: there is no response, or an error, or the body is too large; names the address.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    with tempfile.TemporaryFile() as spool:
        try:
            with opener.open(query.url(time.time()), timeout=_TIMEOUT_S) as answer:
                _copy(answer, spool, query)
        except urllib.error.HTTPError as error:
            raise InputError(f"Jaeger answered {error.code} {error.reason}", where=query.where) from error
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise InputError(f"Jaeger does not answer: {reason}", where=query.where) from error
        spool.seek(0)
        yield spool


def _copy(answer: HTTPResponse, spool: IO[bytes], query: JaegerQuery) -> None:
    """Copy a response body to a file.

    Raises:
        InputError: the body is too large or takes too long.
        HTTPException: the body is truncated.
    """
    size = 0
    end = time.monotonic() + _MAX_DOWNLOAD_S
    while chunk := answer.read1(_CHUNK):
        size += len(chunk)
        if size > MAX_ANSWER:
            raise InputError(
                f"Jaeger's answer is larger than {MAX_ANSWER >> 30} GiB; lower the limit", where=query.where
            )
        if time.monotonic() > end:
            raise InputError(
                f"Jaeger's answer takes longer than {_MAX_DOWNLOAD_S:g} s; lower the limit", where=query.where
            )
        spool.write(chunk)
    if answer.length:
        raise HTTPException("the answer is incomplete")
