"""Metrics of server processes: HTTP requests, the process itself, the page and the push."""

from __future__ import annotations

from kwiken.runtime.metrics.http_requests import HttpRequests as HttpRequests
from kwiken.runtime.metrics.page import METRICS_PATH as METRICS_PATH, MetricsPage as MetricsPage
from kwiken.runtime.metrics.process import (
    process_families as process_families,
    resource_of as resource_of,
    target_family as target_family,
)
from kwiken.runtime.metrics.push import pushed as pushed
from kwiken.runtime.metrics.snapshots import distribution as distribution
