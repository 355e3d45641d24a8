"""Client of the HTTP API of Prometheus: instant queries for histograms and counters over a window."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import msgspec

from kwiken.errors import InputError
from kwiken.otel.read import Bounds, downloaded

_BOUNDS: Final = Bounds(timeout_s=60.0, whole_s=120.0, size=256 << 20)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"([1-9]\d{0,8})([smhd])")
_FORM: Final = "prometheus://HOST:PORT?lookback=1h"


@dataclass(frozen=True, slots=True)
class PrometheusQuery:
    """Where to ask, and for which window.

    Attributes:
        where: address as given, for errors.
        host: host and port of Prometheus.
        lookback: length of the window that ends now, in Prometheus's notation.
        lookback_s: the same in seconds.
    """

    where: str
    host: str
    lookback: str
    lookback_s: int

    @classmethod
    def parse(cls, address: str) -> PrometheusQuery:
        """Read `prometheus://HOST:PORT?lookback=1h`.

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
        if parts.scheme != "prometheus" or not parts.hostname or port is None:
            raise refuse("names no host and port")
        if parts.path.strip("/"):
            raise refuse("has a path; name a service by --service")
        if parts.username is not None or parts.fragment:
            raise refuse("has a user or a fragment")
        asked = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = sorted(asked.keys() - {"lookback"})
        if unknown:
            raise refuse(f"has an unknown parameter {unknown[0]!r}, known is lookback")
        lookback = _DURATION.fullmatch(asked.get("lookback", "1h"))
        if lookback is None:
            raise refuse("has a lookback that is no duration such as 30m, 1h or 2d")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(address, f"{host}:{port}", lookback[0], int(lookback.group(1)) * _UNITS[lookback.group(2)])


class _Native(msgspec.Struct):
    """Native histogram: buckets as boundary rule, lower bound, upper bound and count."""

    count: str
    sum: str
    buckets: list[tuple[int, str, str, str]] = []


class Series(msgspec.Struct):
    """One series of an answer.

    Attributes:
        metric: its labels.
        value: moment and value; None for a native histogram.
        histogram: moment and native histogram; None for a number.
    """

    metric: dict[str, str]
    value: tuple[float, str] | None = None
    histogram: tuple[float, _Native] | None = None

    @property
    def number(self) -> float:
        """The value; 0 where there is none."""
        return float(self.value[1]) if self.value is not None else 0.0


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[Any] = []


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


def vector_of(query: PrometheusQuery, expression: str) -> list[Series]:
    """Evaluate an expression at the present moment.

    Args:
        query: where to ask.
        expression: expression in PromQL whose result is an instant vector.

    Raises:
        InputError: there is no answer, or it is no result of Prometheus; names the address.
    """
    asked = urlencode({"query": expression, "time": f"{time.time():.3f}"}, quote_via=quote)
    url = f"http://{query.host}/api/v1/query?{asked}"
    with downloaded(url, who="Prometheus", where=query.where, bounds=_BOUNDS) as body:
        text = body.read()
    try:
        answer = msgspec.json.decode(text, type=_Answer)
        if answer.status != "success" or answer.data is None:
            raise InputError(f"Prometheus refused the query: {answer.error[:200]}", where=query.where)
        if answer.data.result_type != "vector":
            raise InputError("Prometheus answered with no vector", where=query.where)
        found = msgspec.convert(answer.data.result, list[Series])
        if not all(isfinite(series.number) for series in found):
            raise ValueError("a value is not finite")  # noqa: TRY301 - reported like the decoder's own
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(f"the answer is not Prometheus's: {error}", where=query.where) from error
    return found
