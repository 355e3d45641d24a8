"""Server processes push their metrics to a collector while they run, and once more when they stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.otel.collectors import Collector, metrics_collector
from tests.support.project.commands import refused, run
from tests.support.runtime.server_processes import address_of, ask, running

TARGET = "tests.support.services.http:service"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setitem(os.environ, "OTEL_METRIC_EXPORT_INTERVAL", "3600000")
    with metrics_collector() as made:
        yield made


def last(collector: Collector) -> tuple[str, dict[str, float]]:
    """Service of the last push, and its sums and numbers of latencies by metric."""
    (pushed,) = collector.got[-1][1].resource_metrics
    service = {each.key: each.value.string_value for each in pushed.resource.attributes}["service.name"]
    found: dict[str, float] = {}
    for metric in pushed.scope_metrics[0].metrics:
        points = metric.exponential_histogram.data_points or metric.sum.data_points
        found[metric.name] = sum(
            getattr(point, "count", 0) or getattr(point, "as_int", 0) for point in points
        )
    return service, found


def test_a_gateway_pushes_what_happened_when_it_stops(collector: Collector) -> None:
    with running("serve", TARGET, "--local", "--port", "0", "--metrics-otlp", collector.url) as gateway:
        url = address_of(gateway)
        assert ask(url, "/v1/request", {"text": "hi"})[0] == 200
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(30) == 0
    service, found = last(collector)
    assert service == "echo"
    assert found["kw.request.duration"] == found["http.server.request.duration"] == 1
    assert found["kw.stage.attempts"] == 4  # one call, two shards, one call


def test_a_replica_pushes_what_it_counts(collector: Collector) -> None:
    words = ["stage", TARGET, "--stage", "first", "--metrics-otlp", collector.url]
    with running(*words) as replica:
        assert replica.stderr is not None
        assert "http://" in replica.stderr.readline()
        replica.send_signal(signal.SIGTERM)
        assert replica.wait(30) == 0
    service, found = last(collector)
    assert service == "echo-first"
    assert found["kw.replica.call.duration"] == 0
    assert found["kw.replica.queue.length"] == 0


def test_a_replica_has_no_token() -> None:
    refused(run("stage", TARGET, "--stage", "first", "--metrics", "token"), "a replica has no token")


def test_a_collector_that_is_no_url_is_refused() -> None:
    refused(
        run("serve", TARGET, "--local", "--metrics-otlp", "nowhere"), "metrics-otlp.*no URL of a collector"
    )
