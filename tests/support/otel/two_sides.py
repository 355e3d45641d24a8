"""Calls whose client's and server's sides differ, drawn by a seed, with the time of every service and link."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.otel.field import FORMS, Trace, requests
from tests.support.otel.span_trees import Span

SEEDS: Final = tuple(range(4101, 4107))  # of each kind, fixed before the first run
REQUESTS: Final = 120
_NAMES: Final = (
    ("web", "stock"),
    ("checkout", "payments-api"),
    ("bff.mobile", "geo"),
    ("Portal", "rows_v2"),
)
_ROUTES: Final = ("GET /items", "GET /v1/rows/{id}", "shop.Stock/GetItem", "GET /api/geo/near")


@dataclass
class Call:
    """One request being made: its spans, and the true time of each part.

    Attributes:
        own: milliseconds of each service.
        link: milliseconds of each link, by caller and callee.
    """

    trace: Trace
    caller: str
    callee: str
    route: str
    troubled: bool
    own: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    link: defaultdict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))

    def serve(self, above: Span, start: float, took: float, **others: Any) -> float:
        """Server's span of the callee, which works all the time; its end."""
        self.trace.span(above, self.callee, self.route, start, start + took, "server", **others)
        self.own[self.callee] += took
        return start + took

    def waits(self, took: float) -> None:
        """Time of the link between caller and callee."""
        self.link[self.caller, self.callee] += took


@dataclass
class Drawn:
    """A data set: spans and, request by request, the true times.

    Attributes:
        own: by request: milliseconds of each service.
        link: by request: milliseconds of each link.
    """

    form: str
    caller: str
    callee: str
    spans: list[Span]
    own: list[defaultdict[str, float]]
    link: list[defaultdict[tuple[str, str], float]]


def mesh_retry(call: Call, root: Span, at: float) -> float:
    """One client's span, below it the servers' spans of several attempts with pauses between them."""
    rng, begun = call.trace.rng, at
    tries = rng.choice((2, 3)) if call.troubled else 1
    client = call.trace.span(root, call.caller, "GET", at, at, "client")
    for left in range(tries, 0, -1):
        at += 0.3
        call.waits(0.3)
        status = "503" if left > 1 else "200"
        at = call.serve(client, at, rng.uniform(3, 5), http__response__status_code=status)
        if left > 1:
            pause = rng.uniform(10, 25)
            call.waits(pause)
            at += pause
    call.waits(0.3)
    return _ended(client, begun, at + 0.3)


def library_retry(call: Call, root: Span, at: float) -> float:
    """A client's span of the call, and below it one for each attempt; of a refused one there is no server's."""
    rng, begun = call.trace.rng, at
    client = call.trace.span(root, call.caller, "Sent.shop.Stock.GetItem", at, at, "client")
    at += 0.2
    call.waits(0.2)
    if call.troubled:
        took = rng.uniform(1, 2)
        attempt = call.trace.span(
            client, call.caller, "Attempt.shop.Stock.GetItem", at, at + took + 0.4, "client", error=True
        )
        if rng.random() < 0.5:
            call.serve(attempt, at + 0.2, took, error=True)
            call.waits(0.4)
        else:
            call.waits(took + 0.4)
        at += took + 0.4
        pause = rng.uniform(15, 30)
        call.waits(pause)
        at += pause
    took = rng.uniform(3, 5)
    attempt = call.trace.span(
        client, call.caller, "Attempt.shop.Stock.GetItem", at, at + took + 0.4, "client"
    )
    call.serve(attempt, at + 0.2, took)
    call.waits(0.4 + 0.2)
    return _ended(client, begun, at + took + 0.6)


def connecting(call: Call, root: Span, at: float) -> float:
    """Spans for the look-up, the connection and the handshake beside the server's span, or around it."""
    rng, begun = call.trace.rng, at
    client = call.trace.span(root, call.caller, "GET", at, at, "client")
    at += 0.1
    inner = client
    if rng.random() < 0.5:
        inner = call.trace.span(client, call.caller, "http.send", at, at)
    for name in ("dns.lookup", "tcp.connect", "TLS handshake"):
        took = rng.uniform(0.1, 0.5) + (rng.uniform(200, 400) if call.troubled and "dns" in name else 0)
        call.trace.span(inner, call.caller, name, at, at + took, rng.choice(("internal", "client")))
        at += took
    call.waits(at - begun + 0.3 + 0.4)
    at = call.serve(inner, at + 0.3, rng.uniform(3, 6)) + 0.4
    if inner is not client:
        _ended(inner, begun + 0.1, at - 0.1)
    return _ended(client, begun, at)


def ends_at_headers(call: Call, root: Span, at: float) -> float:
    """A client's span that ends while the server still sends, alone or below a span that does so too."""
    rng, headers = call.trace.rng, at + 3
    above = root
    if rng.random() < 0.5:
        above = call.trace.span(root, call.caller, "fetch", at, headers)
    client = call.trace.span(above, call.caller, "GET", at, headers, "client")
    call.waits(0.3)
    took = rng.uniform(10, 14) + (60 if call.troubled else 0)
    if rng.random() < 0.5:
        call.trace.span(root, call.caller, "read body", headers + 0.2, at + 0.3 + took)
    return call.serve(client, at + 0.3, took)


def other_clocks(call: Call, root: Span, at: float) -> float:
    """Three pods of the callee, whose clocks are off by so much that servers' spans leave their clients'."""
    rng = call.trace.rng
    pod = rng.randrange(3)
    took = rng.uniform(6, 10) + (70 if call.troubled else 0)
    client = call.trace.span(root, call.caller, "GET", at, at + took + 0.4, "client")
    off = (40.0, -15.0, 0.0)[pod]
    call.serve(client, at + 0.2 + off, took, k8s__pod__name=f"{call.callee}-{pod}")
    call.waits(0.4)
    return at + took + 0.4


def interceptor(call: Call, root: Span, at: float) -> float:
    """A token is fetched from another service below the client's span, before the call itself."""
    rng, begun = call.trace.rng, at
    client = call.trace.span(root, call.caller, "GET", at, at, "client")
    filters = call.trace.span(client, call.caller, "auth filter", at, at)
    took = rng.uniform(1, 2) + (30 if call.troubled else 0)
    call.trace.call(filters, "POST", "tokens", "POST /token", at, at + took + 0.2)
    call.own["tokens"] += took
    call.link[call.caller, "tokens"] += 0.2
    at += took + 0.2
    _ended(filters, begun, at)
    call.waits(0.6)
    at = call.serve(client, at + 0.3, rng.uniform(3, 5)) + 0.3
    return _ended(client, begun, at)


def _ended(span: Span, begun: float, end: float) -> float:
    """Set the end of a span that was made before it was known; the end."""
    span.end = span.start + round((end - begun) * 1_000_000)
    return end


def caller_retry(call: Call, root: Span, at: float) -> float:
    """A client's span for each attempt, sent again by the caller itself after a pause."""
    rng = call.trace.rng
    for left in range(rng.choice((2, 3)) if call.troubled else 1, 0, -1):
        took = rng.uniform(3, 5)
        client = call.trace.span(root, call.caller, "GET", at, at + took + 0.4, "client", error=left > 1)
        call.serve(client, at + 0.2, took, error=left > 1)
        pause = rng.uniform(10, 25) if left > 1 else 0.0
        call.waits(0.4 + pause)
        at += took + 0.4 + pause
    return at


KINDS: Final[dict[str, Callable[[Call, Span, float], float]]] = {
    "mesh retry": mesh_retry,
    "library retry": library_retry,
    "caller retry": caller_retry,
    "connecting": connecting,
    "ends at headers": ends_at_headers,
    "other clocks": other_clocks,
    "interceptor": interceptor,
}


def drawn(kind: str, seed: int) -> Drawn:
    """Draw a data set of one kind: format, names, depth and share of the requests with the trouble."""
    rng = random.Random(f"{kind} {seed}")
    form, (caller, callee) = rng.choice(FORMS), rng.choice(_NAMES)
    route, deep = rng.choice(_ROUTES), rng.random() < 0.5
    share = rng.choice((0.05, 0.1, 0.3))
    found = Drawn(form, caller, callee, [], [], [])

    def make(trace: Trace) -> None:
        call = Call(trace, caller, callee, route, trace.rng.random() < share)
        at = 0.0
        edge = root = trace.span(None, "edge" if deep else caller, "GET /page", at, at, "server")
        client = None
        if deep:
            client = trace.span(edge, "edge", "GET", 1, 1, "client")
            at = 1.1
            root = trace.span(client, caller, "GET /page", at, at, "server")
        begun = at
        end = KINDS[kind](call, root, at + 2.0)
        img = trace.rng.uniform(5, 6)
        trace.call(root, "GET", "img", "GET /img", end + 1, end + 1 + img + 0.2)
        end += img + 1.2 + 3
        call.own["img"] += img
        call.link[caller, "img"] += 0.2
        call.own[caller] += 6
        _ended(root, begun, end)
        if client is not None:
            _ended(client, 1, end + 0.1)
            _ended(edge, 0, end + 0.1 + 2)
            call.own["edge"] += 3
            call.link["edge", caller] += 0.2
        found.own.append(call.own)
        found.link.append(call.link)

    found.spans += requests(make, REQUESTS, seed)
    return found
