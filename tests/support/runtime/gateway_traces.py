"""Spans as a Java agent writes them behind a gateway: client and server spans, controllers, SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from tests.support.otel.span_trees import MS, T0, Span

GATEWAY = "edge-service"


@dataclass
class Call:
    """One call of another service.

    Attributes:
        service: callee.
        route: operation of the callee's server span.
        took_ms: time of the client's span; the server's is 2 ms shorter.
        method: HTTP method in the name of the client's span.
        inside: names of spans inside of the callee, one after another.
        calls: calls that the callee makes, one after another.
        failed: whether client's and server's spans carry the error mark.
    """

    service: str
    route: str
    took_ms: float
    method: str = "GET"
    inside: Sequence[str] = ()
    calls: Sequence[Call] = ()
    failed: bool = False


@dataclass
class Request:
    """One request behind the gateway: the call that the gateway makes, and marks of trouble."""

    call: Call
    own_ms: float = 1.0
    error_span: bool = False
    spans: list[Span] = field(default_factory=list)

    def emit(self, number: int) -> list[Span]:
        """All spans of the request, with `number` as its trace."""
        self.spans, ids = [], count(1)
        start = T0 + number * 100_000 * MS
        whole = self.call.took_ms + 2 * self.own_ms
        root = self._add(number, ids, 0, GATEWAY, "/*", start, whole)
        self._add(number, ids, root, GATEWAY, "FilteringWebHandler.handle", start + _ns(0.1), whole - 0.2)
        if self.error_span:
            self._add(number, ids, root, GATEWAY, "ErrorWebFilter.log", start + _ns(whole - 0.4), 0.2)
        self._call(number, ids, root, GATEWAY, self.call, start + _ns(self.own_ms))
        return self.spans

    def _call(self, number: int, ids: count[int], parent: int, caller: str, call: Call, start: int) -> None:
        client = self._add(
            number, ids, parent, caller, f"HTTP {call.method}", start, call.took_ms, failed=call.failed
        )
        begin, took = start + MS, call.took_ms - 2
        server = self._add(number, ids, client, call.service, call.route, begin, took, failed=call.failed)
        work = self._add(number, ids, server, call.service, "Controller.run", begin + _ns(0.01), took - 0.02)
        now = begin + _ns(0.1)
        for name in call.inside:
            self._add(number, ids, work, call.service, name, now, 0.2)
            now += _ns(0.3)
        for inner in call.calls:
            self._call(number, ids, work, call.service, inner, now)
            now += _ns(inner.took_ms + 0.1)

    def _add(
        self,
        number: int,
        ids: count[int],
        parent: int,
        service: str,
        name: str,
        start: int,
        took_ms: float,
        *,
        failed: bool = False,
    ) -> int:
        span = Span(number, next(ids), parent, service, name, start, start + _ns(took_ms), error=failed)
        self.spans.append(span)
        return span.id


def _ns(ms: float) -> int:
    return round(ms * MS)


def spans_of(requests: Sequence[Request], first: int = 1) -> list[Span]:
    """All spans of some requests, one after another in time."""
    return [span for number, request in enumerate(requests, first) for span in request.emit(number)]


def shop_request(number: int) -> Request:
    """A request of the page `/shop/page`: prices, then stock once or twice, then a write of a visit.

    Every twentieth request waits for the stock's database, so that the slowest 5% are the stock service's work.
    """
    slow = 200.0 if number % 20 == 0 else 0.0
    stock = Call(
        "stock-service",
        "/api/v1/stock/search",
        30 + slow + number % 5,
        method="POST",
        inside=("StockRepository.findAll", "SELECT stock"),
    )
    again = [stock] if number % 3 == 0 else []
    visit = Call("visit-service", "/api/v1/visits", 12, method="POST", inside=("INSERT visits",))
    price = Call("price-service", "/api/v1/prices/{id}", 20 + number % 7, inside=("SELECT price",))
    calls = [price, stock, *again, visit]
    return Request(Call("shop-service", "/api/v1/shop/page", _around(calls), calls=calls))


def cart_request(number: int) -> Request:
    """A request of the route `/cart/add`."""
    save = Call("order-service", "/api/v1/orders", 20 + number % 3, method="PUT", inside=("UPDATE orders",))
    look = Call("stock-service", "/api/v1/stock/{id}", 9, inside=("SELECT stock",))
    calls = [look, save]
    return Request(Call("cart-service", "/api/v1/cart/add", _around(calls), method="POST", calls=calls))


def _around(calls: Sequence[Call]) -> float:
    return sum(call.took_ms for call in calls) + 8.0
