"""Push of metrics to a collector: data points of the OpenTelemetry SDK, sent by its exporter over HTTP.

The SDK's own instruments would count a second time what the runtime counts already, and take some
microseconds for each measurement. Its histograms cannot be observed. So the points are made from what the
runtime knows, as cumulative sums, and only the sending is the SDK's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Buckets,
    DataT,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Metric as SdkMetric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from kwiken.otel.http.bounded_answers import COLLECTOR
from kwiken.otel.http.exporter_session import collector_session
from kwiken.otel.metrics.model import Distribution, Family, MetricKind
from kwiken.otel.write.endpoint import collector_url
from kwiken.otel.write.otlp_json import SCOPE, scope_version

METRICS_PATH: Final = "/v1/metrics"
MAX_BUCKETS: Final = 160  # of one exponential histogram, as the SDK's own have
_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


class MetricPush:
    """Sender of metrics to a collector.

    Args:
        endpoint: `http://HOST:PORT`, or the full URL of the collector's metrics path. Headers, compression,
            certificates and the time limit come from the environment (`OTEL_EXPORTER_OTLP_...`).
        started_ns: time since which the counters count, nanoseconds since 1970.
        exporter: exporter to use instead of OTLP over HTTP, for tests.

    Raises:
        InputError: the endpoint is no HTTP URL.
    """

    def __init__(
        self,
        endpoint: str,
        resource: Mapping[str, str | int | float | bool],
        *,
        started_ns: int,
        exporter: MetricExporter | None = None,
    ) -> None:
        url = collector_url(endpoint, METRICS_PATH, option="metrics-otlp")
        self._resource = Resource(dict(resource))
        self._scope = InstrumentationScope(SCOPE, scope_version())
        self._started_ns = started_ns
        self._exporter = exporter or OTLPMetricExporter(
            endpoint=url, timeout=COLLECTOR.timeout_s, session=collector_session()
        )

    def push(self, families: Sequence[Family], now_ns: int) -> bool:
        """Send metrics; blocks until the collector has answered or the time limit has passed.

        Args:
            families: metrics to send; those without points are left out.
            now_ns: time of the points, nanoseconds since 1970.

        Returns:
            Whether the collector took them.
        """
        end_ns = max(now_ns, self._started_ns)  # the clock may have been set back since
        metrics = [_converted(each, self._started_ns, end_ns) for each in families if each.points]
        scope = ScopeMetrics(self._scope, metrics, "")
        data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        return self._exporter.export(data) is MetricExportResult.SUCCESS

    def close(self) -> None:
        """Stop retrying and close the connection."""
        self._exporter.shutdown()


def _converted(each: Family, started_ns: int, now_ns: int) -> SdkMetric:
    metric = each.metric
    data: DataT
    if metric.kind is MetricKind.HISTOGRAM:
        data = ExponentialHistogram(
            [
                _exponential(
                    point.value, dict(zip(metric.labels, point.labels, strict=True)), started_ns, now_ns
                )
                for point in each.points
                if isinstance(point.value, Distribution)
            ],
            _CUMULATIVE,
        )
    else:
        since = now_ns if metric.kind in {MetricKind.GAUGE, MetricKind.INFO} else started_ns
        points = [
            NumberDataPoint(dict(zip(metric.labels, point.labels, strict=True)), since, now_ns, point.value)
            for point in each.points
            if not isinstance(point.value, Distribution)
        ]
        if metric.kind is MetricKind.COUNTER or metric.kind is MetricKind.UP_DOWN_COUNTER:
            data = Sum(points, _CUMULATIVE, is_monotonic=metric.kind is MetricKind.COUNTER)
        else:
            data = Gauge(points)
    name = f"{metric.name}.info" if metric.kind is MetricKind.INFO else metric.name
    return SdkMetric(name, metric.help, metric.unit, data)


def _exponential(
    values: Distribution, attributes: dict[str, str], started_ns: int, now_ns: int
) -> ExponentialHistogramDataPoint:
    scale, first, counts = trimmed(values)
    return ExponentialHistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=started_ns,
        time_unix_nano=now_ns,
        count=values.size,
        sum=values.total,
        scale=scale,
        zero_count=0,
        positive=Buckets(first, counts),
        negative=Buckets(0, []),
        flags=0,
        min=None,  # type: ignore[arg-type]  # optional in the protocol; the runtime does not keep them
        max=None,  # type: ignore[arg-type]
        exemplars=[
            Exemplar({}, exemplar.value, exemplar.at_ns, exemplar.span_id, exemplar.trace_id)
            for exemplar in values.exemplars
        ],
    )


def trimmed(values: Distribution) -> tuple[int, int, list[int]]:
    """Scale, index of the first bucket, and counts, without empty buckets at both ends.

    Neighbours are merged, and the scale is lowered, until there are at most `MAX_BUCKETS`.
    """
    filled = [index for index, count in enumerate(values.counts) if count]
    if not filled:
        return values.scale, 0, []
    scale, first = values.scale, values.first + filled[0]
    counts = list(values.counts[filled[0] : filled[-1] + 1])
    while len(counts) > MAX_BUCKETS:
        if first % 2:
            counts.insert(0, 0)
        counts += [0] * (len(counts) % 2)
        counts = [counts[i] + counts[i + 1] for i in range(0, len(counts), 2)]
        first, scale = first // 2, scale - 1
    return scale, first, counts
