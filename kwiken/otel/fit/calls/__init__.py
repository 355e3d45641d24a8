"""Calls of requests as matrices: order, repeated calls, and stages."""

from __future__ import annotations

from kwiken.otel.fit.calls.call_matrices import (
    NS_PER_MS as NS_PER_MS,
    CallMatrix as CallMatrix,
    Floats as Floats,
    build as build,
    in_order as in_order,
    longest_path as longest_path,
    matrix as matrix,
)
from kwiken.otel.fit.calls.repeated_calls import (
    MAX_TURNS as MAX_TURNS,
    clock_ticks as clock_ticks,
    turns as turns,
)
from kwiken.otel.fit.calls.stage_order import (
    MAX_OVERLAP as MAX_OVERLAP,
    REQUESTS_AT_ONCE as REQUESTS_AT_ONCE,
    acyclic as acyclic,
    order_in_time as order_in_time,
    reduction as reduction,
)
