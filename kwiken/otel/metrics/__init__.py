"""Metrics: what there is to measure, as text for Prometheus and as data points for OTLP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.metrics.labels import bounded
    from kwiken.otel.metrics.model import Distribution, Exemplar, Family, Metric, Rising, family
    from kwiken.otel.metrics.otlp import MetricPush
    from kwiken.otel.metrics.prometheus import exposition

__all__ = [
    "Distribution",
    "Exemplar",
    "Family",
    "Metric",
    "MetricPush",
    "Rising",
    "bounded",
    "exposition",
    "family",
]

__getattr__ = lazy_names(
    __name__,
    {
        "kwiken.otel.metrics.labels": ("bounded",),
        "kwiken.otel.metrics.model": (
            "Distribution",
            "Exemplar",
            "Family",
            "Metric",
            "Rising",
            "family",
        ),
        "kwiken.otel.metrics.otlp": ("MetricPush",),
        "kwiken.otel.metrics.prometheus": ("exposition",),
    },
)
