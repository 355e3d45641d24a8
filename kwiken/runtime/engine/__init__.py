"""Execution of requests: the DAG run, hedged calls, and what is recorded of them."""

from __future__ import annotations

from kwiken.runtime.engine.executor import Answer as Answer, Executor as Executor
from kwiken.runtime.engine.timing import timing_of as timing_of
