"""Readers of traffic: calls between the instances in traces, and flow logs, as flows between endpoints."""

from __future__ import annotations

from kwiken.otel.flows.addresses import endpoints_by_address as endpoints_by_address
from kwiken.otel.flows.logs import (
    is_flow_log as is_flow_log,
    read_flow_logs as read_flow_logs,
)
from kwiken.otel.flows.spans import flows_of_forest as flows_of_forest
