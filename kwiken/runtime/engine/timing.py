"""Timing of a request: where its time went, as JSON."""

from __future__ import annotations

from typing import Any

from kwiken.otel.write.records import RequestRecord
from kwiken.otel.write.span_model import attempt_name

NS_PER_MS = 1e6


def timing_of(record: RequestRecord) -> dict[str, Any]:
    """Convert a record into its attempts, in the order in which they were sent.

    Returns:
        `trace_id` in hex, `total_ms`, and `spans`: for each attempt its name, stage, shard, number, kind,
        outcome, replica, start and end in milliseconds since the request's start, and `catch_up` if
        it was sent, or sped up, because the request was late (a copy: if catch-up paid for it).
    """
    spans = [
        {
            "name": attempt_name(stage.name, attempt.kind),
            "stage": stage.name,
            "shard": attempt.shard,
            "attempt": attempt.attempt,
            "kind": attempt.kind.value,
            "outcome": attempt.outcome.value,
            "replica": attempt.replica,
            "start_ms": (attempt.start_ns - record.start_ns) / NS_PER_MS,
            "end_ms": (attempt.end_ns - record.start_ns) / NS_PER_MS,
            **({"catch_up": True} if attempt.catch_up else {}),
        }
        for stage in record.stages
        for attempt in stage.attempts
    ]
    spans.sort(key=lambda span: span["start_ms"])
    return {
        "trace_id": f"{record.trace_id:032x}",
        "total_ms": (record.end_ns - record.start_ns) / NS_PER_MS,
        "spans": spans,
    }
