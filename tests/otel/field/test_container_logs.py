"""Traces in logs of containers, in bodies of requests, and in forms that are for reading by eye."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kwiken.base.errors import InputError
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field import Trace, requests
from tests.support.otel.field_data import field_file
from tests.support.otel.span_trees import by_trace, otlp_line, write

STAMP = "2026-11-27T20:00:00.123456789Z"
AROUND: dict[str, Callable[[str], str]] = {
    "docker's file": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": STAMP}),
    "docker logs -t": lambda line: f"{STAMP} {line}",
    "compose": lambda line: f"collector-1  | {line}",
    "kubectl --timestamps": lambda line: f"{STAMP} {line}",
    "kubectl --prefix": lambda line: f"[pod/otel-collector-7d9f/otel] {line}",
    "containerd": lambda line: f"{STAMP} stderr F {line}",
    "plain": lambda line: line,
}
BEFORE = (
    "2026-11-27T20:00:00.000Z\tinfo\tservice@v0.140.0/service.go:247\tEverything is ready. Begin running."
)


def lines() -> list[str]:
    def make(trace: Trace) -> None:
        root = trace.span(None, "web", "GET /page", 0, 20, "server")
        trace.call(root, "GET", "items", "GET /items", 1, 12)

    return [otlp_line(trace).rstrip("\n") for trace in by_trace(requests(make, 40))]


@pytest.mark.parametrize("form", AROUND)
@pytest.mark.parametrize("seed", [6301, 6302])
def test_otlp_in_a_containers_log_is_read(form: str, seed: int, tmp_path: Path) -> None:
    rng, around = random.Random(seed), AROUND[form]
    logged = [around(BEFORE)] if form != "plain" or seed % 2 else [BEFORE]
    for line in lines():
        logged += [around(line), *([around(BEFORE)] if rng.random() < 0.3 else [])]
    found = fit_profile([write(tmp_path / "log.txt", "\n".join(logged) + "\n")])
    plain = fit_profile([write(tmp_path / "plain.jsonl", "\n".join(lines()) + "\n")])
    assert found.digest == plain.digest


REFUSED = {
    "debug exporter": (
        '2026-11-27T20:00:00.000Z\tinfo\tTraces\t{"otelcol.component.id": "debug", "resource spans": 1}\nResourceSpans #0\n',
        "debug exporter",
    ),
    "debug exporter in docker": (
        'otel-1  | 2026-11-27T20:00:00.000Z\tinfo\tTracesExporter\t{"kind": "exporter", "name": "debug", "spans": 3}\n',
        "debug exporter",
    ),
    "debug exporter's details": ("Resource SchemaURL: \nResourceSpans #0\n", "exporter, which is for reading"),
    "SkyWalking's segment": (
        '{"traceId":"a.1","traceSegmentId":"b","service":"web","spans":[{"spanId":0}]}',
        "of SkyWalking",
    ),
    "SkyWalking's answer": (
        '{"data":{"trace":{"spans":[{"traceId":"a","segmentId":"b","spanId":0,"parentSpanId":-1}]}}}',
        "of SkyWalking",
    ),
    "SkyWalking's collapsed answer": (
        '{"data":{"queryBasicTraces":{"traces":[{"segmentId":"b","endpointNames":["GET:/x"]}]}}}',
        "of SkyWalking",
    ),
    "another log": ("hello\nworld\n" * 20, "is neither OTLP JSON"),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_other_forms_are_named(form: str, tmp_path: Path) -> None:
    text, reason = REFUSED[form]
    with pytest.raises(InputError, match=reason):
        fit_profile([write(tmp_path / "other.txt", text)])


@pytest.mark.parametrize("every", [1, 10, 0x57, 0x99])
def test_bodies_in_protobuf_are_named_with_the_way_out(every: int, tmp_path: Path) -> None:
    body = bytes([0x0A, every, 0x0A, 0x19, 0x0A, 0x17, 0x0A, 0x0C]) + b"service.name\x12\x07\n\x05front" * 9
    (tmp_path / "body.pb").write_bytes(body)
    with pytest.raises(InputError, match=r"protobuf.*http/json"):
        fit_profile([tmp_path / "body.pb"])


def test_the_case_of_a_body_in_protobuf() -> None:
    with pytest.raises(InputError, match=r"protobuf.*http/json"):
        fit_profile([field_file("G13")])
