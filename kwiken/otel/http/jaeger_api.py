"""Client of the HTTP APIs of Jaeger's query service: that of its pages, and version 3."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import IO, Final
from urllib.parse import quote, unquote, urlencode

from kwiken.otel.http.bounded_answers import JAEGER
from kwiken.otel.http.download import StatusError, downloaded
from kwiken.otel.http.query_address import QueryAddress

MAX_TRACES: Final = 50_000
_FORM: Final = "jaeger://HOST:PORT/SERVICE?lookback=1h"
_KNOWN: Final = ("lookback", "limit", "operation", "token-file")
_NOT_SERVED: Final = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED}


@dataclass(frozen=True, slots=True)
class JaegerQuery:
    """Query for the traces of one service.

    Attributes:
        address: address as given, parsed.
        operation: operation that a trace must contain; None for all traces.
        lookback_s: age of the oldest traces, seconds.
    """

    address: QueryAddress
    service: str
    operation: str | None = None
    lookback_s: int = 3600
    limit: int = 2000

    @property
    def where(self) -> str:
        """Address as given, for errors."""
        return self.address.where

    @classmethod
    def parse(cls, address: str) -> JaegerQuery:
        """Read `jaeger://HOST:PORT/SERVICE?lookback=1h&limit=2000&operation=OP&token-file=FILE`.

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
        return cls(told, unquote(told.path), told.asked.get("operation"), lookback_s, int(limit))

    def url(self, now_s: float) -> str:
        """URL of the request to the API of Jaeger's pages; times in microseconds, as Jaeger takes them."""
        end = round(now_s * 1e6)
        asked = {
            "service": self.service,
            "start": end - self.lookback_s * 1_000_000,
            "end": end,
            "limit": self.limit,
        }
        if self.operation is not None:
            asked["operation"] = self.operation
        return f"{self.address.origin}/api/traces?{urlencode(asked, quote_via=quote)}"

    def url_of_version_3(self, now_s: float) -> str:
        """URL of the request to version 3, under the names of its parameters in all releases of Jaeger."""
        since, until = (
            f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
            for at in (now_s - self.lookback_s, now_s)
        )
        asked: dict[str, object] = {
            "query.serviceName": self.service,
            "query.startTimeMin": since,
            "query.startTimeMax": until,
            "query.searchDepth": self.limit,
            "query.service_name": self.service,
            "query.start_time_min": since,
            "query.start_time_max": until,
            "query.search_depth": self.limit,
            "query.num_traces": self.limit,
        }
        if self.operation is not None:
            asked |= dict.fromkeys(("query.operationName", "query.operation_name"), self.operation)
        return f"{self.address.origin}/api/v3/traces?{urlencode(asked, quote_via=quote)}"


@contextmanager
def fetched(query: JaegerQuery) -> Iterator[IO[bytes]]:
    """Send the query, and yield the response body as a file.

    Version 3 is asked where the API of Jaeger's pages is not served: it answers with an error or a page.

    Raises:
        InputError: there is no response, or an error, or the body is too large; names the address.
    """
    now_s, headers = time.time(), query.address.headers()
    try:
        with _downloaded(query.url(now_s), query, headers) as body:
            page = body.read(1) == b"<"
            body.seek(0)
            if not page:
                yield body
                return
    except StatusError as error:
        if error.status not in _NOT_SERVED:
            raise
    with _downloaded(query.url_of_version_3(now_s), query, headers) as body:
        yield body


def _downloaded(url: str, query: JaegerQuery, headers: dict[str, str]) -> AbstractContextManager[IO[bytes]]:
    return downloaded(url, who="Jaeger", where=query.where, bounds=JAEGER, headers=headers)
