"""Readers of text metrics, by the parsers of the Prometheus client library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prometheus_client import parser
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics_parser


def parse_text(text: str) -> Iterable[Metric]:
    """Families of metrics in the text format of Prometheus."""
    return parser.text_string_to_metric_families(text)


def parse_openmetrics(text: str) -> Iterable[Metric]:
    """Families of metrics in OpenMetrics; raises ValueError for text that is not in that format."""
    families: Any = openmetrics_parser.text_string_to_metric_families
    found: Iterable[Metric] = families(text)
    return found
