"""Metrics: what there is to measure, as text for Prometheus and as data points for OTLP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwiken.base.lazy import lazy_names

if TYPE_CHECKING:
    from kwiken.otel.metrics.labels import bounded as bounded
    from kwiken.otel.metrics.model import (
        Distribution as Distribution,
        Exemplar as Exemplar,
        Family as Family,
        Metric as Metric,
        Rising as Rising,
        family as family,
    )
    from kwiken.otel.metrics.otlp import MetricPush as MetricPush
    from kwiken.otel.metrics.prometheus import exposition as exposition
    from kwiken.otel.metrics.several import (
        by_gateway as by_gateway,
        families_from_bytes as families_from_bytes,
        families_to_bytes as families_to_bytes,
    )

__getattr__ = lazy_names(__name__, __file__)
