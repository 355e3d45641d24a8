"""Calls of callees that write no spans, or whose spans were lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field import FORMS, Trace, blamed, excess_ms, filed, requests, without_kinds
from tests.support.otel.field_data import field_file


def pay_ms(trace: Trace) -> float:
    return 100.0 if trace.number % 25 == 0 else 10.0


def front(attributes: dict[str, Any], name: str = "GET") -> Callable[[Trace], None]:
    """A request that calls `user`, which writes spans, and then a callee that writes none."""

    def make(trace: Trace) -> None:
        took = pay_ms(trace)
        root = trace.span(None, "front", "GET /pay", 0, took + 9, "server")
        trace.call(root, "GET", "user", "GET /user", 1, 6)
        client = trace.span(root, "front", name, 7, 7 + took, "client", **attributes)
        trace.span(client, "front", "tls.connect", 7.1, 8, "internal")

    return make


def test_a_callee_without_spans_is_a_stage_and_to_blame() -> None:
    profile = fit_profile([field_file("F05_uninstrumented_http")])
    assert [stage.match.service for stage in profile.stages] == ["front", "user", "pay-api", "pg"]
    pay = profile.stages[2]
    assert pay.reissuable
    assert pay.match.host == "api.pay.example"
    assert excess_ms(profile)["pay-api"] == pytest.approx(56, abs=1)
    assert blamed(profile) == "pay-api"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("attributes", "name", "service", "reads"),
    [
        ({"peer__service": "pay", "http__method": "GET"}, "HTTP GET", "pay", True),
        ({"server__address": "api.pay.example"}, "GET", "api.pay.example", True),
        ({"net__peer__name": "10.1.2.3", "rpc__service": "pay.Pay", "rpc__method": "GetRate"}, "x", "pay.Pay", True),
        ({"http__url": "https://api.pay.example/v1/pay/17", "http__method": "POST"}, "POST", "api.pay.example", False),
        ({"db__system": "postgresql", "db__statement": "select * from t where id = 17"}, "query", "postgresql", True),
        ({"db__system": "mysql", "db__statement": "SELECT a FROM t FOR UPDATE"}, "SELECT t", "mysql", False),
        ({"db__system__name": "redis", "server__address": "127.0.0.1"}, "SET", "redis", False),
        ({"db__system": "mongodb", "db__operation": "insert", "net__peer__name": "mongo"}, "orders", "mongo", False),
        ({"upstream_cluster": "outbound|80||pay.shop.svc.cluster.local"}, "egress", "pay.shop.svc.cluster.local", False),
        ({"db__system": "redis", "db__statement": "GET a\nSET b c"}, "GET", "redis", False),
        ({"db__system": "postgresql", "db__statement": "SELECT a FROM t; DROP TABLE t"}, "query", "postgresql", False),
        ({"db__system": "postgresql", "db__statement": "SELECT 1; DROP TABLE t"}, "SELECT", "postgresql", False),
        ({"db__system__name": "pg", "db__query__summary": "SELECT a UPDATE b"}, "SELECT a UPDATE b", "pg", False),
        ({"db__system": "elasticsearch", "db__operation": "search", "http__method": "POST"}, "x", "elasticsearch", True),
        ({"rpc__service": "DynamoDB", "rpc__method": "GetItem", "http__method": "POST"}, "POST", "DynamoDB", True),
        ({"rpc__service": "DynamoDB", "rpc__method": "PutItem", "http__method": "POST"}, "POST", "DynamoDB", False),
        ({"rpc__service": "CartService", "rpc__method": "GetCart", "http__method": "POST"}, "x", "CartService", True),
        ({"messaging__system": "rabbitmq"}, "basic.get", "rabbitmq", False),
        ({"peer__service": "pay"}, "post /rates/list", "pay", False),
        ({"peer__service": "pay", "http__method": "POST"}, "GET", "pay", False),
        ({"peer__ipv4": "10.1.2.3", "http__method": "GET"}, "GET", "10.1.2.3", True),
        ({"network__peer__address": "10.1.2.3", "http__request__method": "GET"}, "GET", "10.1.2.3", True),
        ({"server__address": "pay-2.pay.shop.svc", "http__method": "GET"}, "GET", "pay.shop.svc", True),
        ({"http__method": "GET"}, "GET", "unnamed service", True),
        ({}, "pay.Pay/GetRate", "pay.Pay", True),
        ({}, "work", "unnamed service", False),
    ],
)  # fmt: skip
def test_callees_are_named_by_what_clients_state(
    form: str, attributes: dict[str, Any], name: str, service: str, reads: bool, tmp_path: Path
) -> None:
    profile = fit_profile([filed(tmp_path, requests(front(attributes, name), 200), form)])
    assert [stage.match.service for stage in profile.stages] == ["front", "user", service]
    assert profile.stages[2].reissuable is reads
    assert blamed(profile) == service


@pytest.mark.parametrize("share", [1, 3])
def test_a_call_of_which_no_request_has_the_servers_span_is_not_that_of_another_callee(
    share: int, tmp_path: Path
) -> None:
    def make(trace: Trace) -> None:
        took = pay_ms(trace) if trace.number % share == 0 else 0.0
        root = trace.span(None, "front", "GET /pay", 0, took + 9, "server")
        trace.call(root, "GET", "user", "GET /user", 1, 6)
        if took:
            trace.span(root, "front", "GET", 7, 7 + took, "client")

    profile = fit_profile([filed(tmp_path, requests(make), "otlp")])
    assert [stage.match.service for stage in profile.stages] == ["front", "user", "unnamed service"]
    assert excess_ms(profile)["user"] == pytest.approx(0, abs=0.1)


def lost(trace: Trace) -> None:
    """Two calls by clients' spans that are alike; the servers' spans of a part of them are lost."""
    took = pay_ms(trace)
    root = trace.span(None, "front", "GET /pay", 0, took + 9, "server")
    calls = [
        trace.call(root, "HTTP GET", "user", "GET /user", 1, 6),
        trace.call(root, "HTTP GET", "pay", "GET /rate", 7, 7 + took),
    ]
    for _, server in calls:
        if trace.rng.random() < 0.3:
            trace.spans.remove(server)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bare", [False, True], ids=["kinds", "no kinds"])
def test_a_call_whose_servers_span_was_lost_is_the_same_call(form: str, bare: bool, tmp_path: Path) -> None:
    spans = requests(lost)
    profile = fit_profile([filed(tmp_path, without_kinds(spans) if bare else spans, form)])
    assert [stage.name for stage in profile.stages] == ["front (own time)", "user:user", "pay:rate"]
    assert [stage.visit_share for stage in profile.stages] == [1.0, 1.0, 1.0]
    assert blamed(profile) == "pay"


def test_deeper_in_a_trace_the_callee_is_to_blame_too(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        took = pay_ms(trace)
        root = trace.span(None, "edge", "GET /shop", 0, took + 12, "server")
        _, front = trace.call(root, "GET", "front", "GET /pay", 1, took + 11)
        trace.call(front, "GET", "user", "GET /user", 2, 7)
        if trace.number % 2 or took > 50:
            trace.span(
                front, "front", "SELECT", 8, 8 + took, "client", db__system="pg", db__sql__table="rates"
            )

    profile = fit_profile([filed(tmp_path, requests(make), "jaeger")])
    assert blamed(profile) == "pg"
    assert {stage.name for stage in profile.stages} >= {"user:user", "pg:SELECT"}


def test_paths_with_more_values_than_operations_count_by_the_spans_name(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "front", "GET /pay", 0, 30, "server")
        url = f"https://shop/{'abcdefghij'[trace.number % 10]}{'klmnopqrst'[trace.number // 10 % 10]}x"
        trace.span(root, "front", "GET", 1, 20, "client", url__full=url, http__request__method="GET")

    profile = fit_profile([filed(tmp_path, requests(make, 200), "otlp")])
    assert [stage.name for stage in profile.stages] == ["front (own time)", "shop:GET"]
