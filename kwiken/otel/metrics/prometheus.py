"""Text of metrics for Prometheus, in its own format or in OpenMetrics, by `prometheus_client`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from prometheus_client.core import (
    CounterMetricFamily,
    Exemplar,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kwiken.otel.metrics.model import Distribution, Family, Metric, MetricKind

BUCKETS_PER_OCTAVE: Final = 4  # bounds of classic buckets for each factor of 2, so 19% apart
LOWEST_OCTAVE: Final = -12  # the first bound is 2**-12 s, 0.24 ms
HIGHEST_OCTAVE: Final = 5  # the last bound is 2**5 s, 32 s
# Pause after each family, so that an event loop in the same process gets the interpreter's lock back after
# one family's text, not after the 5 ms that a busy thread may keep it.
_YIELD_S: Final = 0.00005

_STEPS: Final = range(LOWEST_OCTAVE * BUCKETS_PER_OCTAVE, HIGHEST_OCTAVE * BUCKETS_PER_OCTAVE + 1)
# Six digits are enough, and are written alike in both formats.
BOUNDS: Final = tuple(repr(float(f"{2.0 ** (step / BUCKETS_PER_OCTAVE):.6g}")) for step in _STEPS)
_WORDS: Final = {"s": "seconds", "By": "bytes"}
_REPLACED: Final = re.compile(r"[^a-zA-Z0-9_]+")


def prometheus_name(metric: Metric) -> str:
    """Name of a metric's samples: with its unit, and with `_total` or `_info` where the kind asks for it.

    A histogram's samples add `_bucket`, `_sum` and `_count`.
    """
    name = prometheus_label(metric.name)
    unit = _WORDS.get(metric.unit, "")
    if metric.unit == "1" and metric.kind is MetricKind.GAUGE:
        unit = "ratio"
    if unit and not name.endswith(f"_{unit}"):
        name = f"{name}_{unit}"
    suffix = {MetricKind.COUNTER: "_total", MetricKind.INFO: "_info"}.get(metric.kind, "")
    return name if name.endswith(suffix) else name + suffix


def prometheus_label(attribute: str) -> str:
    """Name of an attribute as a label: other characters than letters and digits become underscores."""
    return _REPLACED.sub("_", attribute)


def exposition(families: Sequence[Family], accept: str) -> tuple[bytes, str]:
    """Text of metrics, and its content type.

    May take some milliseconds, so call it in a thread.

    Args:
        families: metrics to show; those without points are left out.
        accept: value of the client's Accept header; `application/openmetrics-text` gives OpenMetrics, with
            exemplars, anything else the text format of Prometheus.
    """
    encode, content_type = choose_encoder(accept)
    return encode(_Families(families)), content_type


class _Families(Collector):
    """Families as the client library takes them."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Any]:
        for each in self._families:
            if each.points:
                yield _converted(each)
                time.sleep(_YIELD_S)


def _converted(each: Family) -> Any:
    metric, points = each
    name, text = prometheus_name(metric), metric.help
    labels = [prometheus_label(label) for label in metric.labels]
    if metric.kind is MetricKind.INFO:
        info = InfoMetricFamily(name.removesuffix("_info"), text)
        for point in points:
            info.add_metric([], dict(zip(labels, point.labels, strict=True)))
        return info
    if metric.kind is MetricKind.HISTOGRAM:
        histogram = HistogramMetricFamily(name, text, labels=labels)
        for point in points:
            assert isinstance(point.value, Distribution)
            histogram.add_metric(list(point.labels), classic_buckets(point.value), point.value.total)
        return histogram
    family: Any = (
        CounterMetricFamily(name, text, labels=labels)
        if metric.kind is MetricKind.COUNTER
        else GaugeMetricFamily(name, text, labels=labels)
    )
    for point in points:
        family.add_metric(list(point.labels), point.value)
    return family


def classic_buckets(values: Distribution) -> list[tuple[str, float] | tuple[str, float, Exemplar]]:
    """Cumulative buckets of a distribution in seconds: upper bound, count, and an exemplar if there is one.

    The bounds are bounds of the exponential buckets too, so no value is moved to another bucket.
    """
    fine = 1 << values.scale
    per_step = fine // BUCKETS_PER_OCTAVE
    below = [0, *accumulate(values.counts)]
    exemplars = {_step_of(exemplar.value): exemplar for exemplar in values.exemplars}
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    for step, bound in zip(_STEPS, BOUNDS, strict=True):
        end = min(max(0, step * per_step - values.first), len(values.counts))
        buckets.append(_bucket(bound, below[end], exemplars.get(step)))
    return [*buckets, _bucket("+Inf", values.size, exemplars.get(_STEPS.stop))]


def _bucket(bound: str, count: int, exemplar: Any) -> tuple[str, float] | tuple[str, float, Exemplar]:
    if exemplar is None:
        return bound, float(count)
    trace = {"trace_id": f"{exemplar.trace_id:032x}", "span_id": f"{exemplar.span_id:016x}"}
    return bound, float(count), Exemplar(trace, exemplar.value, exemplar.at_ns / 1e9)


def _step_of(value: float) -> int:
    """Step of the lowest bound that is not below a value."""
    low, high = _STEPS.start, _STEPS.stop
    while low < high:
        middle = (low + high) // 2
        if float(BOUNDS[middle - _STEPS.start]) < value:
            low = middle + 1
        else:
            high = middle
    return low
