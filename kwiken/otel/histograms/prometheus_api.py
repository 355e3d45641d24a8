"""Client of the HTTP API of Prometheus: instant queries for histograms and counters over a window."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from kwiken.base.errors import InputError
from kwiken.otel.http.bounded_answers import PROMETHEUS
from kwiken.otel.http.download import downloaded
from kwiken.otel.http.query_address import QueryAddress

_FORM: Final = "prometheus://HOST:PORT/BASE?lookback=1h"
_KNOWN: Final = ("lookback", "token-file")


@dataclass(frozen=True, slots=True)
class PrometheusQuery:
    """Address of a Prometheus, and the window asked for.

    Attributes:
        where: address as given, for errors.
        lookback: length of the window, in Prometheus's notation.
        lookback_s: the same in seconds.
        end_s: end of the window, seconds since the epoch. All expressions are evaluated at this moment:
            Prometheus extrapolates increases from the last sample to it, so that counts taken at different
            moments would not belong together.
    """

    address: QueryAddress
    headers: dict[str, str]
    lookback: str
    lookback_s: int
    end_s: float

    @property
    def where(self) -> str:
        """Address as given, for errors."""
        return self.address.where

    @classmethod
    def parse(cls, address: str) -> PrometheusQuery:
        """Read `prometheus://HOST:PORT/BASE?lookback=1h&token-file=FILE`; the window ends now.

        Raises:
            InputError: the address has another form; says what is wrong.
        """
        told = QueryAddress.parse(address, form=_FORM, known=_KNOWN)
        lookback, lookback_s = told.lookback("1h")
        return cls(told, told.headers(), lookback, lookback_s, time.time())


class _Native(msgspec.Struct):
    """Native histogram: buckets as boundary rule, lower bound, upper bound and count."""

    count: str
    sum: str
    buckets: list[tuple[int, str, str, str]] = []


class Series(msgspec.Struct):
    """One series of an answer.

    Attributes:
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
    """Evaluate an expression at the end of the window.

    Args:
        expression: expression in PromQL whose result is an instant vector.

    Raises:
        InputError: there is no answer, or it is no result of Prometheus; names the address.
    """
    asked = urlencode({"query": expression, "time": f"{query.end_s:.3f}"}, quote_via=quote)
    base = f"/{query.address.path}" if query.address.path else ""
    url = f"{query.address.origin}{base}/api/v1/query?{asked}"
    with downloaded(
        url, who="Prometheus", where=query.where, bounds=PROMETHEUS, headers=query.headers
    ) as body:
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
