"""Attributes of HTTP and RPC on our own spans: what each span states, and that a profile is the same with them."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from kwiken.otel.fit.fit import fit_profile
from kwiken.otel.stated_attributes import CALL_PATH, SCHEMA_URL, client_attributes
from kwiken.otel.write.convert import readable_spans
from kwiken.otel.write.labels import Labels
from kwiken.otel.write.observer import make_observer, resource
from kwiken.otel.write.otlp_json import OtlpLines
from kwiken.otel.write.records import (
    AttemptKind,
    AttemptRecord,
    Entrance,
    Outcome,
    RequestRecord,
    StageRecord,
)
from kwiken.otel.write.span_model import CallRecord, Server, call_span, request_spans
from kwiken.runtime.wire.transport import wire
from tests.support.otel.span_trees import MS, T0, Dag, record

HTTP = Entrance("http://127.0.0.1:8080", "POST", "/v1/request", lambda error: 503 if error else 200)
GRPC = Entrance(
    "grpc://0.0.0.0:8081", "kwiken.v1.Gateway/Ask", "", lambda error: "INTERNAL" if error else "OK"
)


def request(
    entry: Entrance | None, status: Any, *attempts: AttemptRecord, operation: str = ""
) -> RequestRecord:
    stage = StageRecord(7, "look", (), 1, T0, T0 + 5 * MS, attempts=list(attempts), operation=operation)
    return RequestRecord(
        1 << 100, 5, None, "shop", T0, T0 + 6 * MS, stages=[stage], entry=entry, status=status
    )


def attempt(number: int, address: str, status: Any = None) -> AttemptRecord:
    kind = AttemptKind.REISSUE if number else AttemptKind.PRIMARY
    outcome = Outcome.CANCELLED if status is None else Outcome.WON
    return AttemptRecord(
        100 + number, 0, number, kind, f"r{number}", "n", T0, T0 + MS, outcome, address=address, status=status
    )


def stated(spans: list[Any]) -> list[dict[str, Any]]:
    """Attributes by span, without our own."""
    return [
        {key: value for key, value in (*span.shared, *span.attributes) if not key.startswith("kw.")}
        for span in spans
    ]


def test_spans_of_a_request_over_http() -> None:
    attempts = attempt(0, "http://10.0.0.7:7001"), attempt(1, "http://[::1]:7002", 200)
    root, stage, first, copy = stated(request_spans(request(HTTP, 200, *attempts), Labels()))
    assert root == {
        "http.request.method": "POST",
        "http.route": "/v1/request",
        "url.path": "/v1/request",
        "server.address": "127.0.0.1",
        "server.port": 8080,
        "http.response.status_code": 200,
    }
    assert stage == {}
    assert first == {"http.request.method": "POST", "server.address": "10.0.0.7", "server.port": 7001}
    assert copy == {
        "http.request.method": "POST",
        "http.request.resend_count": 1,
        "server.address": "::1",
        "server.port": 7002,
        "http.response.status_code": 200,
    }


def test_spans_of_a_request_over_grpc() -> None:
    made = request(GRPC, "INTERNAL", attempt(1, "grpc://inventory:50051", "OK"), operation="shop.Items/Get")
    root, _, copy = stated(request_spans(made, Labels()))
    assert root == {
        "rpc.system.name": "grpc",
        "rpc.method": "kwiken.v1.Gateway/Ask",
        "server.address": os.uname().nodename,
        "server.port": 8081,
        "rpc.response.status_code": "INTERNAL",
    }
    assert copy == {
        "rpc.system.name": "grpc",
        "rpc.method": "shop.Items/Get",
        "server.address": "inventory",
        "server.port": 50051,
        "rpc.response.status_code": "OK",
    }


def test_equal_spans_share_attributes_and_others_do_not() -> None:
    labels = Labels()
    spans = [
        request_spans(request(HTTP, status, attempt(0, address, status)), labels)
        for status, address in (
            (200, "http://a:1"),
            (200, "http://a:1"),
            (500, "http://a:1"),
            (200, "http://b:1"),
        )
    ]
    assert spans[0][0].shared is spans[1][0].shared is spans[3][0].shared is not spans[2][0].shared
    assert spans[0][2].shared is spans[1][2].shared
    assert len({id(each[2].shared) for each in spans}) == 3


def test_a_request_from_within_the_process_states_nothing() -> None:
    assert not any(stated(request_spans(request(None, None, attempt(0, "local")), Labels())))


@pytest.mark.parametrize("address", ["", "local", "http://", "http://host", "unix:///a:b", "grpc://h:x"])
def test_an_address_of_another_form_states_no_server(address: str) -> None:
    assert "server.address" not in dict(client_attributes(address, "", 0, None))


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("http", {"http.request.method": "POST", "http.route": "/call", "url.path": "/call"}),
        ("grpc", {"rpc.system.name": "grpc", "rpc.method": "kwiken.v1.Stage/Call"}),
        ("", {}),
    ],
)
def test_a_replicas_span_states_the_method(protocol: str, expected: dict[str, str]) -> None:
    call = CallRecord(1, 2, 0, T0, T0 + MS)
    assert stated([call_span(call, Server("shop", "look", "r", "n", protocol), 3, Labels())]) == [expected]


def test_names_are_those_on_the_wire() -> None:
    assert CALL_PATH == wire.CALL_PATH


def test_both_forms_of_spans_state_the_version_of_the_conventions() -> None:
    made = request(HTTP, 200, attempt(0, "http://a:1", 200))
    line = json.loads(OtlpLines(resource("shop")).line(request_spans(made, Labels())))
    (of_resource,) = line["resourceSpans"]
    assert of_resource["schemaUrl"] == of_resource["scopeSpans"][0]["schemaUrl"] == SCHEMA_URL
    for span in readable_spans("shop", [made]):
        assert span.resource.schema_url == SCHEMA_URL
        assert span.instrumentation_scope is not None
        assert span.instrumentation_scope.schema_url == SCHEMA_URL


def test_a_profile_is_the_same_with_the_attributes_and_without(tmp_path: Path) -> None:
    rng, dag = random.Random(3), Dag([[], [0], [0, 1]])
    requests = [record(rng, dag, start=T0 + number * 50 * MS, copies=0.2) for number in range(60)]
    for name, with_attributes in (("bare", False), ("stated", True)):
        observer = make_observer("shop", traces=tmp_path / name)
        for each in requests:
            if with_attributes:
                each.entry, each.status = HTTP, 200
                for stage in each.stages:
                    for sent in stage.attempts:
                        sent.address, sent.status = f"http://10.0.0.1:{7000 + len(sent.replica)}", 200
            observer.request_finished(each)
        observer.close()
    bare, with_them = (fit_profile([tmp_path / name]) for name in ("bare", "stated"))
    assert bare.digest == with_them.digest
