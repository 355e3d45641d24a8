"""Metrics of server processes: HTTP requests, the process itself, and where they are sent."""

from __future__ import annotations

from kwiken.runtime.metrics.http_requests import HttpRequests
from kwiken.runtime.metrics.page import METRICS_PATH, MetricsPage
from kwiken.runtime.metrics.process import process_families, resource_of, target_family
from kwiken.runtime.metrics.push import pushed
from kwiken.runtime.metrics.snapshots import distribution

__all__ = [
    "METRICS_PATH",
    "HttpRequests",
    "MetricsPage",
    "distribution",
    "process_families",
    "pushed",
    "resource_of",
    "target_family",
]
