"""gRPC's health service: the present state, and streams that follow it.

The health service of `grpcio-health-checking` writes to its streams while it holds a lock that a change of
the state needs, and a stream is ended by a cancel. A cancel that falls into a write leaves the stream open
for as long as its client likes. Here nothing is shared between streams, and none is cancelled.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2

MAX_WATCHES: Final = 256  # streams that follow the health of the server; beyond it the oldest ends
TOO_MANY: Final = "too many streams follow the server's health"
STOPPING: Final = "the server is stopping"
States = health_pb2.HealthCheckResponse


class _Watch:
    """A stream that follows the health of one service."""

    __slots__ = ("end", "news")

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.end: tuple[grpc.StatusCode, str] | None = None


class HealthService:
    """Health of a server and of its one service."""

    NAME: Final = health.SERVICE_NAME

    def __init__(self, service: str) -> None:
        self._state = States.NOT_SERVING
        self._services = ("", service)
        self._watches: dict[_Watch, None] = {}
        self._stopping = False

    @property
    def watches(self) -> int:
        """Number of streams that follow the health."""
        return len(self._watches)

    def report_ready(self) -> None:
        """Report the server as healthy from now on; without effect once it is stopping."""
        if not self._stopping:
            self._report(States.SERVING)

    def report_stopping(self) -> None:
        """Report the server as unhealthy for good."""
        self._stopping = True
        self._report(States.NOT_SERVING)

    def end_watches(self) -> None:
        """End all streams."""
        for watch in list(self._watches):
            self._end(watch, grpc.StatusCode.UNAVAILABLE, STOPPING)

    async def check(self, request: Any, context: Any) -> Any:
        """Answer a question for the state of a service."""
        if request.service not in self._services:
            context.set_code(grpc.StatusCode.NOT_FOUND)
            context.set_details("there is no such service")
            return None
        return States(status=self._state)

    async def watch(self, request: Any, context: Any) -> None:
        """Tell a client the state of a service, and each change of it."""
        while len(self._watches) >= MAX_WATCHES:
            self._end(next(iter(self._watches)), grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY)
        watch = _Watch()
        self._watches[watch] = None
        known = request.service in self._services
        told = None
        try:
            while watch.end is None:
                watch.news.clear()
                state = self._state if known else States.SERVICE_UNKNOWN
                if state != told:
                    await context.write(States(status=state))
                    told = state
                else:
                    await watch.news.wait()
        finally:
            self._watches.pop(watch, None)
        code, reason = watch.end
        context.set_code(code)
        context.set_details(reason)

    def _report(self, state: Any) -> None:
        self._state = state
        for watch in self._watches:
            watch.news.set()

    def _end(self, watch: _Watch, code: grpc.StatusCode, reason: str) -> None:
        del self._watches[watch]
        watch.end = code, reason
        watch.news.set()
