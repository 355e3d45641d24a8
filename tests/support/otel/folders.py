"""Folders of traces of a shop, in as many files as wanted."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec

SERVICES = ("shop", "stock", "price", "mail")


def resource(service: str, spans: list[dict[str, Any]], pod: str) -> dict[str, Any]:
    attributes = {"service.name": service, "k8s.pod.name": pod}
    return {
        "resource": {
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
        },
        "scopeSpans": [{"spans": spans}],
    }


def line(rng: random.Random, number: int, start_ns: int) -> bytes:
    """One request of a shop, which calls some other services; names and routes differ from request to request."""
    trace, parts, at = f"{rng.getrandbits(128):032x}", [], start_ns
    root = f"{2 * number + 1:016x}"
    for place, service in enumerate(rng.sample(SERVICES[1:], rng.randint(1, 3))):
        took = rng.randint(1, 40) * 1_000_000
        span = {
            "traceId": trace,
            "spanId": f"{(number << 8) + 16 + place:016x}",
            "parentSpanId": root,
            "name": f"GET /{service}/{rng.choice('abc')}",
            "kind": 2,
            "startTimeUnixNano": str(at),
            "endTimeUnixNano": str(at + took),
            "attributes": [
                {"key": "http.request.method", "value": {"stringValue": rng.choice(("GET", "POST"))}},
                {"key": "url.path", "value": {"stringValue": f"/{service}/{rng.randint(0, 99)}"}},
            ],
        }
        parts.append(resource(service, [span], f"{service}-{rng.randint(0, 3)}"))
        at += took
    top = {
        "traceId": trace,
        "spanId": root,
        "name": "GET /",
        "kind": 2,
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(at + 1_000_000),
        "attributes": [{"key": "tenant", "value": {"stringValue": rng.choice("xyz")}}],
    }
    parts.append(resource("shop", [top], "shop-0"))
    return msgspec.json.encode({"resourceSpans": parts}) + b"\n"


def folder_of(path: Path, *, files: int, lines: int, seed: int = 0) -> Path:
    rng = random.Random(seed)
    for file in range(files):
        requests = range(file * lines, (file + 1) * lines)
        text = b"".join(line(rng, n, 1_700_000_000_000_000_000 + n * 10_000_000) for n in requests)
        (path / f"part-{file:03}.jsonl").write_bytes(text)
    return path
