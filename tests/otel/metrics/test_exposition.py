"""Metrics as text for Prometheus and as data points for OTLP: names, buckets, exemplars, bounds on labels."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData

from kwiken.base.errors import InputError
from kwiken.otel.metrics import catalog
from kwiken.otel.metrics.labels import bounded
from kwiken.otel.metrics.model import Distribution, Exemplar, Rising, family
from kwiken.otel.metrics.otlp import MAX_BUCKETS, MetricPush, trimmed
from kwiken.otel.metrics.prometheus import BOUNDS, classic_buckets, exposition, prometheus_name
from kwiken.otel.write.labels import OTHER
from kwiken.runtime.decisions.latency_histogram import LatencyHistogram, TracedLatency
from kwiken.runtime.metrics.snapshots import distribution
from tests.support.otel.exposition import parse_openmetrics, parse_text

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def histogram_of(latencies: list[float]) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for latency in latencies:
        histogram.add(latency)
    return histogram


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (catalog.REQUEST_DURATION, "kw_request_duration_seconds"),
        (catalog.REQUESTS_SHED, "kw_requests_shed_total"),
        (catalog.LOAD, "kw_load_ratio"),
        (catalog.PLAN_INFO, "kw_plan_info"),
        (catalog.TARGET_INFO, "target_info"),
        (catalog.PROCESS_MEMORY, "process_memory_usage_bytes"),
        (catalog.STAGE_CPU, "kw_stage_cpu_time_seconds_total"),
        (catalog.HTTP_ACTIVE, "http_server_active_requests"),
    ],
)
def test_names_follow_the_rules_of_opentelemetry_for_prometheus(metric: Any, name: str) -> None:
    assert prometheus_name(metric) == name


def test_names_are_unique_and_described() -> None:
    names = Counter(prometheus_name(metric) for metric in catalog.ALL)
    assert max(names.values()) == 1
    assert all(metric.help.endswith(".") and metric.question.endswith("?") for metric in catalog.ALL)


@given(st.lists(st.floats(1e-7, 5000), min_size=1, max_size=50))
def test_no_latency_is_moved_to_another_classic_bucket(latencies: list[float]) -> None:
    buckets = classic_buckets(distribution(histogram_of(latencies)))
    for bound, count in ((float(bucket[0]), bucket[1]) for bucket in buckets):
        # The bounds have six digits, and a value at a bound may be on either side.
        assert sum(latency <= bound * (1 - 1e-5) for latency in latencies) <= count
        assert count <= sum(latency <= bound * (1 + 1e-5) for latency in latencies)
    assert buckets[-1][:2] == ("+Inf", len(latencies))
    assert len(buckets) == len(BOUNDS) + 1


@given(st.lists(st.floats(1e-6, 4000), min_size=1, max_size=50))
def test_exponential_buckets_hold_what_they_say(latencies: list[float]) -> None:
    values = distribution(histogram_of(latencies))
    scale, first, counts = trimmed(values)
    assert sum(counts) == values.size == len(latencies)
    assert len(counts) <= MAX_BUCKETS
    assert values.total == pytest.approx(sum(latencies))
    base = 2.0 ** (2.0**-scale)
    for place, count in enumerate(counts):
        low, high = base ** (first + place) * (1 - 1e-9), base ** (first + place + 1) * (1 + 1e-9)
        assert count <= sum(low <= latency <= high for latency in latencies)


def test_an_empty_histogram_has_no_buckets() -> None:
    assert trimmed(distribution(LatencyHistogram()))[2] == []


def test_text_is_read_back_and_exemplars_only_in_openmetrics() -> None:
    histogram = histogram_of([0.001, 0.002, 0.5, 100.0])
    histogram.trace(TracedLatency(0.5, 1_700_000_000_000_000_000, 0xABC, 0xDEF))
    histogram.trace(TracedLatency(100.0, 1_700_000_000_000_000_000, 1, 2))
    families = [family(catalog.REQUEST_DURATION, [(("answered",), distribution(histogram))])]
    body, content_type = exposition(families, "")
    assert content_type.startswith("text/plain; version=0.0.4")
    assert b"trace_id" not in body
    (plain,) = parse_text(body.decode())
    assert plain.type == "histogram"
    body, content_type = exposition(families, OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    (rich,) = parse_openmetrics(body.decode())
    seen = {sample.labels["le"]: sample.exemplar for sample in rich.samples if sample.exemplar is not None}
    assert {exemplar.value for exemplar in seen.values()} == {0.5, 100.0}
    (half,) = (exemplar for exemplar in seen.values() if exemplar.value == 0.5)
    assert half.labels == {"trace_id": f"{0xABC:032x}", "span_id": f"{0xDEF:016x}"}
    assert "+Inf" in seen
    assert all(exemplar.value <= float(bound) for bound, exemplar in seen.items())


def test_counters_gauges_and_facts_as_text() -> None:
    families = [
        family(catalog.REQUESTS_SHED, [((-1,), 3), ((9,), 1)]),
        family(catalog.LOAD, [((), 0.25)]),
        family(catalog.PLAN_INFO, [(("shop", 'a"b\\c\nd', ""), 1)]),
        family(catalog.PLAN_AFTER, []),
    ]
    text = exposition(families, "")[0].decode()
    assert 'kw_requests_shed_total{kw_priority="-1"} 3.0' in text
    assert "kw_load_ratio 0.25" in text
    assert 'kw_plan="a\\"b\\\\c d"' in text
    assert "kw_plan_reissue_after" not in text


def test_a_point_without_its_labels_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kw\.requests\.shed"):
        family(catalog.REQUESTS_SHED, [((), 1)])


def test_ten_thousand_odd_values_become_a_bounded_number_of_series() -> None:
    odd = [(f"replica-{number}\n\ud800" + "x" * 500, "node") for number in range(10_000)]
    made = list(bounded(((labels, 1) for labels in odd), sum))
    assert len(made) == 201
    assert made[-1] == ((OTHER, OTHER), 10_000 - 200)
    assert all(len(label) <= 128 and "\n" not in label for labels, _ in made for label in labels)
    points = [((("stage", *labels)), value) for labels, value in made]
    text = exposition([family(catalog.REPLICA_EJECTED, points)], OPENMETRICS)[0]
    (read,) = parse_openmetrics(text.decode())
    assert sum(sample.value for sample in read.samples) == 10_000


def test_values_that_are_alike_when_cut_are_merged() -> None:
    assert list(bounded([(("x" * 300,), 1), (("x" * 400,), 2)], sum)) == [(("x" * 127 + "…",), 3)]


def test_a_refund_delays_a_counter_and_does_not_lower_it() -> None:
    rising = Rising()
    assert [rising(("a",), value) for value in (1.0, 3.0, 2.0, 4.0)] == [1.0, 3.0, 3.0, 4.0]
    assert rising(("b",), 0.5) == 0.5


class Kept(MetricExporter):
    """Exporter that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.data: list[MetricsData] = []
        self.closed = False

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> Any:
        self.data.append(metrics_data)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        self.closed = True


def test_points_of_every_kind_for_otlp() -> None:
    from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics

    kept = Kept()
    push = MetricPush("http://h:4318", {"service.name": "shop"}, started_ns=5, exporter=kept)
    exemplar = Exemplar(0.5, 7, 0xABC, 0xDEF)
    values = Distribution(4, 0, (2, 0, 1), 3, 3.5, (exemplar,))
    assert push.push(
        [
            family(catalog.REQUEST_DURATION, [(("answered",), values)]),
            family(catalog.REQUESTS_SHED, [((0,), 3)]),
            family(catalog.REQUESTS_ACTIVE, [((), 2)]),
            family(catalog.LOAD, [((), 0.5)]),
            family(catalog.STAGE_INFO, [(("shop", "a", "", 1, True, 1), 1)]),
            family(catalog.PLAN_AFTER, []),
        ],
        9,
    )
    push.close()
    assert kept.closed
    (resource,) = encode_metrics(kept.data[0]).resource_metrics
    (attribute,) = resource.resource.attributes
    assert (attribute.key, attribute.value.string_value) == ("service.name", "shop")
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    (point,) = metrics["kw.request.duration"].exponential_histogram.data_points
    assert (point.count, point.sum, point.scale, point.positive.offset) == (3, 3.5, 4, 0)
    assert list(point.positive.bucket_counts) == [2, 0, 1]
    assert point.exemplars[0].trace_id == (0xABC).to_bytes(16, "big")
    assert (point.start_time_unix_nano, point.time_unix_nano) == (5, 9)
    assert not point.HasField("min")
    shed = metrics["kw.requests.shed"]
    assert shed.sum.is_monotonic
    assert shed.sum.aggregation_temporality == 2  # cumulative
    assert (shed.unit, shed.sum.data_points[0].as_int) == ("{request}", 3)
    assert not metrics["kw.requests.active"].sum.is_monotonic
    assert metrics["kw.load"].gauge.data_points[0].as_double == 0.5
    facts = {
        each.key: each.value.string_value for each in metrics["kw.stage.info"].gauge.data_points[0].attributes
    }
    assert facts["kw.idempotent"] == "true"
    assert "kw.plan.reissue.after" not in metrics


def test_a_collector_that_is_no_url_is_refused() -> None:
    with pytest.raises(InputError, match=r"metrics-otlp.*no URL of a collector"):
        MetricPush("collector:4318", {}, started_ns=0)


def test_quantiles_of_the_runtime_and_of_its_metrics_agree() -> None:
    latencies = [0.001 * 1.07**number for number in range(100)]
    values = distribution(histogram_of(latencies))
    for share in (0.5, 0.9, 0.99):
        wanted = math.ceil(share * len(latencies))
        known = next(float(bucket[0]) for bucket in classic_buckets(values) if bucket[1] >= wanted)
        quantile = histogram_of(latencies).quantile(share)
        assert quantile is not None
        assert known / 2**0.25 <= quantile * 1.03
        assert quantile <= known * 1.03
