"""Trace trees: cleaned spans, requests, request classes and critical paths."""

from __future__ import annotations

from kwiken.otel.trace.forest import (
    ATTEMPTED as ATTEMPTED,
    DETACHED as DETACHED,
    ROOT as ROOT,
    Forest as Forest,
    levels as levels,
    services_of as services_of,
    without_operations as without_operations,
)
from kwiken.otel.trace.load import Progress as Progress, read_forest as read_forest
from kwiken.otel.trace.paths import critical_path as critical_path
from kwiken.otel.trace.planned_requests import requests_with_plan as requests_with_plan
from kwiken.otel.trace.recorded_requests import read_requests as read_requests, requests_in as requests_in
from kwiken.otel.trace.request_classes import BY_ROOT as BY_ROOT, with_kinds as with_kinds
from kwiken.otel.trace.requests import (
    MAX_ERROR_SHARE as MAX_ERROR_SHARE,
    Candidates as Candidates,
    Requests as Requests,
    candidates as candidates,
    label as label,
    nearest as nearest,
    requests_of as requests_of,
    roles as roles,
)
from kwiken.otel.trace.service_calls import (
    ServiceCalls as ServiceCalls,
    find_service_calls as find_service_calls,
)
from kwiken.otel.trace.traces import (
    Trace as Trace,
    Traces as Traces,
    TraceSpan as TraceSpan,
    read_traces as read_traces,
)
