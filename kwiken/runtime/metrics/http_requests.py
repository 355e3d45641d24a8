"""Times of HTTP requests of one route by status, by OpenTelemetry's conventions for HTTP servers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Iterator
from typing import Protocol, TypeVar

from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.model import Family, family
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram
from kwiken.runtime.metrics.snapshots import distribution

METHOD = "POST"
SCHEME = "http"


class Answered(Protocol):
    """Response of a server."""

    @property
    def status(self) -> int:
        """HTTP status."""


R = TypeVar("R", bound=Answered)


class HttpRequests:
    """Requests of one route.

    Args:
        route: path of the route, which takes POST.
    """

    def __init__(self, route: str) -> None:
        self._route = route
        self._by_status: dict[int, LatencyHistogram] = {}
        self._active = 0

    async def timed(self, answering: Awaitable[R]) -> R:
        """Wait for a response and count it; not counted if the client is gone, because it has no status."""
        self._active += 1
        began = time.monotonic()
        try:
            response = await answering
        finally:
            self._active -= 1
        latencies = self._by_status.get(response.status)
        if latencies is None:
            latencies = self._by_status[response.status] = LatencyHistogram()
        latencies.add(time.monotonic() - began)
        return response

    def families(self) -> Iterator[Family]:
        """Metrics of the requests so far."""
        yield family(
            catalog.HTTP_DURATION,
            (
                ((METHOD, self._route, status, SCHEME), distribution(latencies))
                for status, latencies in sorted(self._by_status.items())
            ),
        )
        yield family(catalog.HTTP_ACTIVE, [((METHOD, SCHEME), self._active)])
