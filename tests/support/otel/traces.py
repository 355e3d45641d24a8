"""Small hand-written traces in Jaeger's JSON."""

from __future__ import annotations

import json
from typing import Any


def span(number: int, parent: int, start_us: int, duration_us: Any, name: str) -> dict[str, Any]:
    """One span; parent 0 for the root."""
    reference = {"refType": "CHILD_OF", "traceID": "1", "spanID": str(parent)}
    return {
        "traceID": "1",
        "spanID": str(number),
        "operationName": name,
        "references": [reference] if parent else [],
        "startTime": 1_700_000_000_000_000 + start_us,
        "duration": duration_us,
        "tags": [],
        "processID": "p1",
    }


def jaeger(*spans: dict[str, Any], trace: str = "1") -> dict[str, Any]:
    """One trace as an answer of Jaeger's API."""
    for each in spans:
        each["traceID"] = trace
        for reference in each["references"]:
            reference["traceID"] = trace
    processes = {"p1": {"serviceName": "shop"}}
    return {"data": [{"traceID": trace, "spans": list(spans), "processes": processes}]}


def many(traces: int) -> str:
    """Requests that call `price`, then `stock` and `mail` side by side; every tenth `price` is slow."""
    found = []
    for number in range(traces):
        price = 9_000 if number % 10 == 0 else 900 + number
        start = number * 100_000
        spans = [
            span(1, 0, start, price + 2_300, "buy"),
            span(2, 1, start + 100, price, "price"),
            span(3, 1, start + price + 200, 2_000, "stock"),
            span(4, 1, start + price + 210, 1_500, "mail"),
        ]
        found += jaeger(*spans, trace=f"{number + 1:x}")["data"]
    return json.dumps({"data": found})
