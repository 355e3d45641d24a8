"""A collector of OTLP metrics over HTTP, on a free port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.support.peers.http_servers import HttpServer, http_server


class Collector:
    """What a collector got."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def got(self) -> list[tuple[str, ExportMetricsServiceRequest]]:
        """Path and metrics of every push."""
        return [
            (asked.path, ExportMetricsServiceRequest.FromString(asked.body)) for asked in self._server.asked
        ]


@contextmanager
def metrics_collector() -> Iterator[Collector]:
    """Run a collector until the block ends."""
    with http_server() as server:
        yield Collector(server)
