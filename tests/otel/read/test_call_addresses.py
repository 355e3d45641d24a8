"""Addresses of calls in spans, in either format, by present and former names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kwiken.model.plan.plan import SpanMatch
from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.span_trees import MS, T0, Span, jaeger_json, otlp_lines, write


def spans() -> list[Span]:
    found = []
    for n in range(1, 31):
        at = T0 + n * 1000 * MS
        found += [
            Span(n, 1, 0, "web", "/home", at, at + 60 * MS),
            Span(n, 2, 1, "cart", "cart.Handler", at + 5 * MS, at + 25 * MS),
            Span(n, 3, 1, "stock", "Stock/Find", at + 30 * MS, at + 50 * MS),
        ]
    return found


def stated(form: str, service: str, attributes: dict[str, str | int]) -> str:
    """Traces in which each span of one service has attributes."""
    if form == "jaeger":
        document = json.loads(jaeger_json(spans()))
        for trace in document["data"]:
            for span in trace["spans"]:
                if trace["processes"][span["processID"]]["serviceName"] == service:
                    span["tags"] += [{"key": k, "type": "x", "value": v} for k, v in attributes.items()]
        return json.dumps(document)
    lines = []
    for line in otlp_lines(spans()).splitlines():
        document = json.loads(line)
        for resource in document["resourceSpans"]:
            named = resource["resource"]["attributes"][0]["value"]["stringValue"]
            for span in resource["scopeSpans"][0]["spans"] if named == service else ():
                span["attributes"] += [{"key": k, "value": _value(v)} for k, v in attributes.items()]
        lines.append(json.dumps(document))
    return "\n".join(lines)


def _value(value: str | int) -> dict[str, Any]:
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}


NEW = {
    "http.request.method": "POST",
    "http.route": "/cart/{id}",
    "server.address": "cart.shop",
    "server.port": 8080,
}
OLD = {"http.method": "POST", "http.route": "/cart/{id}", "http.host": "cart.shop:8080"}


@pytest.mark.parametrize("form", ["jaeger", "otlp"])
@pytest.mark.parametrize("attributes", [NEW, OLD])
def test_method_route_and_address_are_kept(
    form: str, attributes: dict[str, str | int], tmp_path: Path
) -> None:
    profile = fit_profile([write(tmp_path / "a.json", stated(form, "cart", attributes))])
    cart, stock = profile.stages[1:]
    assert cart.match == SpanMatch(
        service="cart",
        operation="POST /cart/{id}",
        method="POST",
        path="/cart/{id}",
        host="cart.shop",
        port=8080,
    )
    assert cart.writes == "POST"
    assert stock.match == SpanMatch(service="stock", operation="Stock/Find")


@pytest.mark.parametrize(
    ("attributes", "kept"),
    [
        (
            {"rpc.service": "shop.Stock", "rpc.method": "Find"},
            {"path": "/shop.Stock/Find", "operation": "shop.Stock/Find"},
        ),
        (
            {"rpc.system.name": "grpc", "rpc.method": "shop.Stock/Find"},
            {"path": "/shop.Stock/Find", "operation": "shop.Stock/Find"},
        ),
        ({"rpc.method": "_OTHER"}, {}),
        ({"http.host": "10.0.0.7:8080"}, {}),
        ({"server.address": "localhost", "server.port": 80}, {}),
        ({"server.address": "two words"}, {}),
        ({"server.address": "cart", "server.port": "70000"}, {"host": "cart"}),
        ({"server.address": "cart", "server.port": "\u0663"}, {"host": "cart"}),
        ({"http.method": "_OTHER"}, {}),
        ({"http.route": "cart"}, {}),
        ({"http.method": ""}, {}),
    ],
)
def test_what_is_no_address_is_not_kept(
    attributes: dict[str, str | int], kept: dict[str, Any], tmp_path: Path
) -> None:
    profile = fit_profile([write(tmp_path / "a.json", stated("otlp", "cart", attributes))])
    expected = {"service": "cart", "operation": "cart.Handler", **kept}
    assert profile.stages[1].match == SpanMatch(**expected)


@pytest.mark.parametrize(("method", "writes"), [("Find", ""), ("Reserve", "shop.Stock/Reserve")])
def test_methods_in_stable_conventions_say_whether_they_read(
    method: str, writes: str, tmp_path: Path
) -> None:
    """Spans of conventions 1.45 are named by the method in full, and have no `rpc.service`."""
    name = f"shop.Stock/{method}"
    stating: dict[str, str | int] = {"rpc.system.name": "grpc", "rpc.method": name, "rpc.status_code": "OK"}
    traces = stated("otlp", "cart", stating).replace("cart.Handler", name)
    profile = fit_profile([write(tmp_path / "a.json", traces)])
    found = next(stage for stage in profile.stages if stage.match and stage.match.operation == name)
    assert found.match is not None
    assert found.match.path == f"/{name}"
    assert found.writes == writes
