"""Client of the HTTP API of Jaeger's query service."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from kwiken.errors import InputError
from kwiken.otel.read.http_answer import Bounds, downloaded

MAX_TRACES: Final = 50_000
MAX_ANSWER: Final = 4 << 30
_TIMEOUT_S: Final = 60.0
_MAX_DOWNLOAD_S: Final = 900.0
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


@contextmanager
def fetched(query: JaegerQuery) -> Iterator[IO[bytes]]:
    """Send the query, and yield the response body as a file.

    Raises:
        InputError: there is no response, or an error, or the body is too large; names the address.
    """
    bounds = Bounds(_TIMEOUT_S, _MAX_DOWNLOAD_S, MAX_ANSWER)
    with downloaded(query.url(time.time()), who="Jaeger", where=query.where, bounds=bounds) as body:
        yield body
