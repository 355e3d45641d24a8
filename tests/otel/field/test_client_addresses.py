"""Host and port that only the clients' spans state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kwiken.otel.fit.fit import fit_profile
from tests.support.otel.field import Trace, filed, requests
from tests.support.otel.field_data import field_file
from tests.support.otel.span_trees import MS, T0, Span, by_trace, jaeger_trace, otlp_line, write

NEW = {"server.address": "shop.local", "server.port": "8080"}


def spans() -> list[Span]:
    found = []
    for n in range(1, 31):
        at = T0 + n * 1000 * MS
        found += [
            Span(n, 1, 0, "web", "GET /page", at, at + 60 * MS),
            Span(n, 2, 1, "web", "GET", at + 5 * MS, at + 25 * MS),
            Span(n, 3, 2, "shop", "GET /item", at + 6 * MS, at + 24 * MS),
            Span(n, 4, 1, "web", "GET", at + 30 * MS, at + 50 * MS),
            Span(n, 5, 4, "stock", "GET /count", at + 31 * MS, at + 49 * MS),
        ]
    return found


def stated(form: str, attributes: dict[int, dict[str, str]], every: int = 1) -> str:
    """Traces of which some spans, by their ids, have attributes, in a part of the requests."""
    lines = []
    for number, trace in enumerate(by_trace(spans())):
        document = jaeger_trace(trace) if form == "jaeger" else json.loads(otlp_line(trace))
        found: list[dict[str, Any]] = document.get("spans", [])
        for part in document.get("resourceSpans", ()):
            found += part["scopeSpans"][0]["spans"]
        for span in found:
            more = attributes.get(int(span.get("spanID") or span["spanId"], 16), {})
            if form == "jaeger":
                span["tags"] += [
                    {"key": "span.kind", "value": "client" if span["operationName"] == "GET" else "server"}
                ]
                span["tags"] += (
                    [{"key": k, "value": v} for k, v in more.items()] if number % every == 0 else []
                )
            else:
                span["kind"] = 3 if span["name"] == "GET" else 2
                span["attributes"] = [
                    {"key": k, "value": {"stringValue": v}} for k, v in more.items() if number % every == 0
                ]
        lines.append(json.dumps(document))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("form", ["jaeger", "otlp"])
@pytest.mark.parametrize("every", [1, 3])
def test_each_callee_has_the_address_of_its_own_clients(form: str, every: int, tmp_path: Path) -> None:
    both = {2: NEW, 4: {"server.address": "stock.local", "server.port": "9090"}}
    shop, stock = fit_profile([write(tmp_path / "a.jsonl", stated(form, both, every))]).stages[1:]
    assert (shop.match.host, shop.match.port) == ("shop.local", 8080)
    assert (stock.match.host, stock.match.port) == ("stock.local", 9090)


@pytest.mark.parametrize("form", ["jaeger", "otlp"])
@pytest.mark.parametrize(
    "said",
    [
        {"net.peer.name": "shop.local", "net.peer.port": "8080"},
        {"http.url": "http://shop.local:8080/item?x=1"},
        {"url.full": "http://user@shop.local:8080/item"},
        {"peer.hostname": "shop.local", "peer.port": "8080"},
        {"out.host": "shop.local", "out.port": "8080"},
        {"net.peer.name": "shop.local", "http.url": "http://shop.local:8080/item"},
        {"server.address": "shop.local", "url.full": "http://shop.local:8080/item"},
        {"http.host": "shop.local:8080", "http.url": "http://shop.local:8080/item"},
    ],
    ids=str,
)
def test_any_convention_states_the_address(form: str, said: dict[str, str], tmp_path: Path) -> None:
    shop = fit_profile([write(tmp_path / "a.jsonl", stated(form, {2: said}))]).stages[1]
    assert (shop.match.host, shop.match.port) == ("shop.local", 8080)


def test_the_servers_peer_is_not_its_own_address(tmp_path: Path) -> None:
    peer = {3: {"net.peer.name": "web.local", "net.peer.port": "5555"}}
    shop = fit_profile([write(tmp_path / "a.jsonl", stated("otlp", peer))]).stages[1]
    assert (shop.match.host, shop.match.port) == (None, None)


def test_the_servers_own_address_counts_first(tmp_path: Path) -> None:
    both = {2: NEW, 3: {"server.address": "inner.local", "server.port": "81"}}
    shop = fit_profile([write(tmp_path / "a.jsonl", stated("otlp", both))]).stages[1]
    assert (shop.match.host, shop.match.port) == ("inner.local", 81)


def test_the_address_of_one_replica_is_none(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl", stated("otlp", {2: {"server.address": "10.0.0.7", "server.port": "80"}})
    )
    assert fit_profile([path]).stages[1].match.host is None


def test_the_case_of_addresses_at_clients() -> None:
    stages = fit_profile([field_file("F18")]).stages[1:]
    assert {(stage.match.host, stage.match.port) for stage in stages} == {("shop.local", 8080)}


def test_the_port_in_istios_name_of_a_cluster_stands(tmp_path: Path) -> None:
    def make(trace: Trace) -> None:
        root = trace.span(None, "web", "GET /page", 0, 20, "server")
        cluster = "outbound|8080|v1|pay.shop.svc.cluster.local"
        trace.call(root, "GET", "pay", "GET /pay", 1, 12, upstream_cluster=cluster)

    pay = fit_profile([filed(tmp_path, requests(make, 30), "otlp")]).stages[1]
    assert (pay.match.host, pay.match.port) == ("pay.shop.svc.cluster.local", 8080)
