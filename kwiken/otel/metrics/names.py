"""Names of metrics and attributes in Prometheus, derived from OpenTelemetry's as its specification says."""

from __future__ import annotations

import re
from typing import Final

from kwiken.otel.metrics.model import Metric, MetricKind

_WORDS: Final = {"s": "seconds", "By": "bytes"}
_ODD: Final = re.compile(r"[^a-zA-Z0-9_]+")


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
    return _ODD.sub("_", attribute)
