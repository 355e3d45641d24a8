"""Client of the HTTP API of Jaeger's query service."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final
from urllib.parse import quote, unquote, urlencode

from kwiken.otel.read.http_api import Bounds, QueryAddress, downloaded

MAX_TRACES: Final = 50_000
MAX_ANSWER: Final = 4 << 30
_TIMEOUT_S: Final = 60.0
_MAX_DOWNLOAD_S: Final = 900.0
_FORM: Final = "jaeger://HOST:PORT/SERVICE?lookback=1h"
_KNOWN: Final = ("lookback", "limit", "operation")


@dataclass(frozen=True, slots=True)
class JaegerQuery:
    """Query for the traces of one service.

    Attributes:
        where: address as given, for errors.
        host: host and port of the query service.
        operation: operation that a trace must contain; None for all traces.
        lookback_s: age of the oldest traces, seconds.
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
        told = QueryAddress.parse(address, form=_FORM, known=_KNOWN)
        if not told.path or "/" in told.path:
            raise told.refused("names no service")
        limit = told.asked.get("limit", "2000")
        if not limit.isdecimal() or not 1 <= int(limit[:9]) <= MAX_TRACES:
            raise told.refused(f"has a limit that is no number from 1 to {MAX_TRACES}")
        _, lookback_s = told.lookback("1h")
        return cls(
            address, told.host, unquote(told.path), told.asked.get("operation"), lookback_s, int(limit)
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


@contextmanager
def fetched(query: JaegerQuery) -> Iterator[IO[bytes]]:
    """Send the query, and yield the response body as a file.

    Raises:
        InputError: there is no response, or an error, or the body is too large; names the address.
    """
    bounds = Bounds(_TIMEOUT_S, _MAX_DOWNLOAD_S, MAX_ANSWER)
    with downloaded(query.url(time.time()), who="Jaeger", where=query.where, bounds=bounds) as body:
        yield body
