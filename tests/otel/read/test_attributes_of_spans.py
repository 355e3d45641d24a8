"""Attributes of spans in odd forms: types, sizes and kinds that no convention has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field import FORMS, Trace, filed, requests

ODD: list[dict[str, Any]] = [
    {"span__kind": "nonsense"},
    {"http__route": 7, "http__method": "get\n"},
    {"http__target": "http://[::1"},
    {"url__full": "://", "http__url": "http://"},
    {"http__url": "http://" + "a/" * 5000 + "9" * 5000},
    {"http__status_code": "9" * 400},
    {"http__status_code": ""},
    {"db__system": "", "db__statement": "SELECT"},
    {"db__system": "sql", "db__statement": "select " + "x, " * 5_000 + "y from t for update"},
    {"peer__service": " ", "server__address": ":80"},
    {"messaging__operation": "", "messaging__destination": ""},
    {"rpc__service": "", "rpc__method": "/"},
    {"error": "", "response_flags": ",,"},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("odd", ODD, ids=", ".join)
def test_odd_attributes_are_read(form: str, odd: dict[str, Any], tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "web", "GET /p", 0, 20, "server", **odd)
        trace.call(root, "GET", "inv", "GET /inv", 1, 9, **odd)
        trace.span(root, "web", "x", 10, 15, "client", **odd)

    profile = fit_profile([filed(tmp_path, requests(make, 30), form)])
    assert profile.requests == 30
    assert "inv" in {stage.match.service for stage in profile.stages}


@pytest.mark.parametrize("kind", [None, "SPAN_KIND_CLIENT", "3", 3, 99, "?"])
def test_kinds_of_otlp_in_any_form(kind: object, tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "web", "GET /p", 0, 20, "server")
        trace.call(root, "GET", "inv", "GET /inv", 1, 9)
        trace.span(root, "web", "pay.Pay/GetRate", 10, 15, "client")

    path = filed(tmp_path, requests(make, 30), "otlp")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for resource in line["resourceSpans"]:
            for span in resource["scopeSpans"][0]["spans"]:
                span["kind"] = kind if span["kind"] == 3 else span["kind"]
                span["attributes"].append(
                    {"key": "http.status_code", "value": {"arrayValue": {"values": []}}}
                )
    path.write_text("\n".join(json.dumps(line) for line in lines))
    services = {stage.match.service for stage in fit_profile([path]).stages}
    assert services >= {"web", "inv"}
    assert ("pay.Pay" in services) == (kind in {"SPAN_KIND_CLIENT", "3", 3})
