"""Trace trees: cleaned spans, requests, request classes and critical paths."""

from __future__ import annotations

from kwiken.otel.trace.forest import DETACHED, ROOT, Forest, levels, services_of, without_operations
from kwiken.otel.trace.load import Progress, read_forest
from kwiken.otel.trace.paths import critical_path
from kwiken.otel.trace.planned_requests import requests_with_plan
from kwiken.otel.trace.recorded_requests import read_requests, requests_in
from kwiken.otel.trace.request_classes import BY_ROOT, with_kinds
from kwiken.otel.trace.requests import (
    MAX_ERROR_SHARE,
    Candidates,
    Requests,
    candidates,
    label,
    nearest,
    requests_of,
    roles,
)
from kwiken.otel.trace.service_calls import ServiceCalls, find_service_calls
from kwiken.otel.trace.traces import Trace, Traces, TraceSpan, read_traces

__all__ = [
    "BY_ROOT",
    "DETACHED",
    "MAX_ERROR_SHARE",
    "ROOT",
    "Candidates",
    "Forest",
    "Progress",
    "Requests",
    "ServiceCalls",
    "Trace",
    "TraceSpan",
    "Traces",
    "candidates",
    "critical_path",
    "find_service_calls",
    "label",
    "levels",
    "nearest",
    "read_forest",
    "read_requests",
    "read_traces",
    "requests_in",
    "requests_of",
    "requests_with_plan",
    "roles",
    "services_of",
    "with_kinds",
    "without_operations",
]
