"""Execution of requests: the DAG run, hedged calls, and what is recorded of them."""

from __future__ import annotations

from kwiken.runtime.engine.combined import (
    combined_status as combined_status,
    gateway_lines as gateway_lines,
)
from kwiken.runtime.engine.executor import Answer as Answer, Executor as Executor
from kwiken.runtime.engine.timing import timing_of as timing_of
