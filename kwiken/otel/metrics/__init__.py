"""Metrics: what there is to measure, as text for Prometheus and as data points for OTLP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.metrics.labels import bounded
    from kwiken.otel.metrics.model import Distribution, Exemplar, Family, Kind, Metric, Rising, family
    from kwiken.otel.metrics.names import prometheus_label, prometheus_name
    from kwiken.otel.metrics.otlp import MetricPush
    from kwiken.otel.metrics.prometheus import BUCKETS_PER_OCTAVE, exposition

__all__ = [
    "BUCKETS_PER_OCTAVE",
    "Distribution",
    "Exemplar",
    "Family",
    "Kind",
    "Metric",
    "MetricPush",
    "Rising",
    "bounded",
    "exposition",
    "family",
    "prometheus_label",
    "prometheus_name",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.otel.metrics.labels": ("bounded",),
        "kwiken.otel.metrics.model": (
            "Distribution",
            "Exemplar",
            "Family",
            "Kind",
            "Metric",
            "Rising",
            "family",
        ),
        "kwiken.otel.metrics.names": ("prometheus_label", "prometheus_name"),
        "kwiken.otel.metrics.otlp": ("MetricPush",),
        "kwiken.otel.metrics.prometheus": ("BUCKETS_PER_OCTAVE", "exposition"),
    },
)
