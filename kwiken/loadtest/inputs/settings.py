"""Settings of a load run, checked before the first request is sent."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from kwiken.base.errors import InputError
from kwiken.loadtest.inputs.arrivals import Arrivals, parse_arrivals
from kwiken.loadtest.inputs.headers import Headers, parse_headers
from kwiken.loadtest.inputs.queries import Queries, parse_queries

MAX_REQUESTS = 5_000_000
MAX_IN_FLIGHT = 20_000
MAX_TIMEOUT_S = 3_600.0
# Visible ASCII only: nothing that could end the request line or smuggle a header.
METHODS = ("POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS")
PATH = "/v1/request"
ASK = "/kwiken.v1.Gateway/Ask"  # the gateway's method over gRPC
WITHOUT_BODY = frozenset({"GET", "HEAD"})
_PATH = re.compile(r"/[\x21-\x7e]*")


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Address that requests are sent to.

    Attributes:
        host: host name or IP address, without brackets.
        port: TCP port, from 1 to 65535.
        tls: True for https and grpcs, False for http and grpc.
        path: path of requests, after the path of the URL itself; over gRPC the method's.
        grpc: True for grpc and grpcs, in place of HTTP.
    """

    host: str
    port: int
    tls: bool
    path: str
    authority: str
    grpc: bool = False

    @property
    def url(self) -> str:
        """Complete URL."""
        scheme = "grpc" if self.grpc else "http"
        return f"{scheme}{'s' if self.tls else ''}://{self.authority}{self.path}"


def parse_target(url: str, path: str) -> LoadTarget:
    """Split a URL into its parts and check them.

    Raises:
        InputError: another scheme, no host, a bad port or path, or parts that would be ignored.
    """
    where = f"URL {url!r}"
    if not re.fullmatch(r"[\x21-\x7e]*", url):
        raise InputError("must be plain ASCII without spaces", where=where)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InputError(str(error), where=where) from error
    if parts.scheme not in {"http", "https", "grpc", "grpcs"}:
        raise InputError("must start with http://, https://, grpc:// or grpcs://", where=where)
    if not parts.hostname or port == 0:
        raise InputError("must name a host and, if any, a port from 1 to 65535", where=where)
    if parts.username is not None or parts.query or parts.fragment:
        raise InputError("must hold no user, query or fragment", where=where)
    if not _PATH.fullmatch(path):
        raise InputError("must start with / and hold no space or control character", where=f"path {path!r}")
    if parts.scheme in {"grpc", "grpcs"}:
        if port is None or parts.path.strip("/"):
            raise InputError(f"must be {parts.scheme}://HOST:PORT", where=where)
        if path != PATH:
            raise InputError("has no effect over gRPC: a gateway has one method", where=f"path {path!r}")
        return LoadTarget(
            host=parts.hostname,
            port=port,
            tls=parts.scheme == "grpcs",
            path=ASK,
            authority=parts.netloc,
            grpc=True,
        )
    tls = parts.scheme == "https"
    return LoadTarget(
        host=parts.hostname,
        port=port or (443 if tls else 80),
        tls=tls,
        path=parts.path.rstrip("/") + path,
        authority=parts.netloc,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """Options of one run, as given and not yet checked.

    Attributes:
        url: scheme, host and port of the target; `grpc://HOST:PORT`, or `grpcs` over TLS, is a gateway's port
            for gRPC.
        rate: requests per second, above 0; may be None for a file of arrivals.
        duration_s: time during which requests start, seconds; None for the length of the file of arrivals.
        arrivals: `poisson`, `constant` or a file with requests per second, one number a line.
        queries: file with one query a line; None for none.
        body: JSON body, or a template for the queries; None for the default.
        path: path of requests; `{query}` in it takes the query, percent-encoded.
        headers: header fields of every request, `Name: value` each.
        header_file: file with one such field a line, for secrets; None for none.
        zipf: exponent of the popularity of queries, from 0 to 10, a number without unit.
        method: one of `METHODS`; GET and HEAD send no body, DELETE and OPTIONS one if it is given.
        warmup_s: length of the warm-up, seconds; requests that are due during it are sent but not counted.
        timeout_s: time limit of one request, seconds.
        late_ms: start lag above which a request counts as late, milliseconds.
        max_in_flight: maximal number of unanswered requests; a request that is due beyond it is dropped.
        seed: seed of arrivals and queries, 0 or more.
        records: file for one JSON line per request; None for none.
    """

    url: str
    rate: float | None = None
    duration_s: float | None = None
    arrivals: str = "poisson"
    queries: str | None = None
    body: str | None = None
    zipf: float = 1.0
    path: str = PATH
    headers: tuple[str, ...] = ()
    header_file: str | None = None
    method: str = "POST"
    warmup_s: float = 0.0
    timeout_s: float = 10.0
    late_ms: float = 5.0
    max_in_flight: int = 1_000
    seed: int = 0
    records: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Checked settings, with the target parsed and the files read."""

    settings: LoadSettings
    target: LoadTarget
    arrivals: Arrivals
    queries: Queries
    headers: Headers = ()


def prepare(settings: LoadSettings, *, endless: bool = False) -> Prepared:
    """Read the files and check every option.

    Args:
        settings: options of the run, not yet checked.
        endless: True to allow a run without a duration (Locust's web page has a stop button).

    Raises:
        InputError: names the option, or the file and line, and says what would be right.
    """
    target = parse_target(settings.url, settings.path)
    if settings.method not in METHODS:
        raise InputError(f"must be one of {', '.join(METHODS)}; got {settings.method!r}", where="method")
    if target.grpc and settings.method != "POST":
        raise InputError("has no effect over gRPC", where="method")
    if settings.body is not None and settings.method in WITHOUT_BODY:
        raise InputError(f"has no effect: {settings.method} sends none", where="body")
    headers = parse_headers(settings.headers, settings.header_file)
    _check("timeout", settings.timeout_s, high=MAX_TIMEOUT_S)
    _check("late", settings.late_ms, high=60_000)
    _check("max in flight", settings.max_in_flight, low=1, high=MAX_IN_FLIGHT)
    _check("seed", settings.seed, low=0, high=2**63)
    arrivals = parse_arrivals(settings.arrivals, rate=settings.rate, duration_s=settings.duration_s)
    if arrivals.duration_s is not None:
        _check_length(arrivals, arrivals.duration_s, settings.warmup_s)
    elif not endless:
        raise InputError("is missing: for how many seconds shall requests start?", where="duration")
    queries = parse_queries(
        settings.queries,
        body=settings.body,
        zipf=settings.zipf,
        target=target.path,
        has_body=settings.method not in WITHOUT_BODY
        and not (settings.method in {"DELETE", "OPTIONS"} and settings.body is None),
    )
    return Prepared(settings, target, arrivals, queries, headers)


def _check(name: str, value: float, *, high: float, low: float | None = None) -> None:
    """Refuse a value outside [low, high] (outside (0, high] without `low`), and NaN."""
    if not (value <= high and (value > 0 if low is None else value >= low)):
        least = "above 0" if low is None else f"at least {low:g}"
        raise InputError(f"must be {least} and at most {high:g}; got {value:g}", where=name)


def _check_length(arrivals: Arrivals, duration_s: float, warmup_s: float) -> None:
    expected = arrivals.expected(duration_s)
    if expected > MAX_REQUESTS:
        raise InputError(
            f"means {math.ceil(expected)} requests, more than {MAX_REQUESTS}; lower the rate or the duration",
            where="duration",
        )
    if not 0 <= warmup_s < duration_s:
        raise InputError(
            f"must be at least 0 and shorter than the duration of {duration_s:g} s; got {warmup_s:g}",
            where="warmup",
        )
